// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"time"
)

// serveProxy starts a local proxy through which git and hg must connect, so that the
// guard checks every address. If the operator has configured a proxy, requests are
// sent on through that one.
func (g *guard) serveProxy() (stop func(), err error) {
	if len(g.proxies) > 0 {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the guard's proxy: %w", err)
	}
	transport := &http.Transport{DialContext: g.dial, MaxIdleConns: 8, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	server := &http.Server{ReadHeaderTimeout: 30 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			g.tunnel(w, r)
		case r.URL.IsAbs():
			forward.ServeHTTP(w, r)
		default:
			http.Error(w, "this is a proxy", http.StatusBadRequest)
		}
	})}
	go func() { _ = server.Serve(l) }() // returns when the listener is closed
	url := "http://" + l.Addr().String()
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"} {
		if err := os.Setenv(name, url); err != nil {
			_ = server.Close()
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	for _, name := range []string{"no_proxy", "NO_PROXY"} {
		if err := os.Unsetenv(name); err != nil {
			_ = server.Close()
			return nil, fmt.Errorf("unset %s: %w", name, err)
		}
	}
	return func() { _ = server.Close() }, nil
}

// tunnel carries a TLS connection to a host that the guard allows.
func (g *guard) tunnel(w http.ResponseWriter, r *http.Request) {
	far, err := g.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = far.Close() }()
	w.WriteHeader(http.StatusOK)
	near, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = near.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(far, buf)
		if c, ok := far.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	_, _ = io.Copy(near, far)
	_ = near.Close() // unblocks the copy in the other direction
	<-done
}
