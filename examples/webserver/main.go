// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command webserver is a tiny service for the examples. It serves a page with the id
// of its alloc, and /healthz. It shuts down on SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, net.JoinHostPort(os.Getenv("NOMAD_IP_http"), os.Getenv("NOMAD_PORT_http"))); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s from %s (%s)\n", os.Getenv("GREETING"), os.Getenv("NOMAD_ALLOC_NAME"), os.Getenv("NOMAD_SHORT_ALLOC_ID"))
	})
	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = server.Shutdown(end) // the process ends in any case
	}()
	log.Printf("serving on http://%s", addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	log.Print("done")
	return nil
}
