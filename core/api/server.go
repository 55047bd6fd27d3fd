// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/connlimit"
	"github.com/klauspost/compress/gzhttp"
)

// Limits of one request.
const (
	maxBodyBytes      = 16 << 20
	maxHeaderBytes    = 1 << 20
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	defaultWait       = 5 * time.Minute
	maxWait           = 10 * time.Minute
)

// Config is the configuration of a Server.
type Config struct {
	EnableDebug bool              // serve /debug/pprof
	Prometheus  bool              // serve /v1/metrics?format=prometheus
	Headers     map[string]string // added to every answer; an origin that they allow by name may send all requests
	// Hosts are the names under which clients call this agent, besides addresses and
	// localhost. "*.x" means every name below x, "*" any name.
	Hosts []string
	// ConnsPerClient is the maximum number of connections of one address; 0 means the
	// default, a negative value no limit.
	ConnsPerClient int
	// EventBuffer is the number of changes that are kept for slow or late subscribers
	// of the event stream; 0 means 4096.
	EventBuffer int
	// Search limits fuzzy searches.
	Search SearchLimits
	// NoEvents refuses subscribers of the event stream.
	NoEvents bool
	// HeaderTimeout is the time limit for the header of a request; 0 means 10 seconds.
	HeaderTimeout time.Duration
	// BodyTimeout is the time limit for a body that is kept in memory; 0 means a
	// minute. The file of a plugin or a snapshot may take longer as long as data
	// arrives at least twice in that time.
	BodyTimeout time.Duration
	// TLS is the TLS configuration of the port; nil means plain HTTP. Inner listeners
	// use the security of the connection that carries them.
	TLS *tls.Config
	// Handshake is the time limit for a TLS handshake; 0 means DefaultHandshake.
	Handshake time.Duration
	// Leader brings requests to the leader; nil if there is only one server.
	Leader Leader
	// AgentOf returns a handler that forwards requests to the agent of another node;
	// nil if there is no way to reach agents.
	AgentOf func(nodeID string) (http.Handler, error)
}

// Server answers the public HTTP API.
type Server struct {
	local   Local
	backend Backend // nil if the agent is not a server
	cfg     Config
	log     hclog.Logger
	handler http.Handler // for requests that agents of the cluster forward
	outer   http.Handler // for all other requests
	events  *eventLog
	bodies  atomic.Int64 // bytes of all bodies in memory
}

// New returns a Server for the backend. Serve also feeds the event stream; a caller
// that uses only Handler must run Feed.
func New(backend Backend, log hclog.Logger, cfg Config) *Server {
	s := &Server{local: backend, backend: backend, cfg: cfg, log: log.Named("http"), events: newEventLog(cfg.EventBuffer)}
	mux := http.NewServeMux()
	rows := slices.Concat(serverRoutes(), localRoutes)
	if cfg.EnableDebug {
		rows = append(rows, debugRoutes...)
	}
	s.mount(mux, rows)
	s.answerWith(s.wrapped(mux))
	return s
}

// wrapped adds what all answers have in common to a mux.
func (s *Server) wrapped(mux *http.ServeMux) http.Handler {
	zip, err := gzhttp.NewWrapper(gzhttp.MinSize(1400))
	if err != nil {
		panic("gzip options are constant: " + err.Error())
	}
	return withHeaders(s.cfg.Headers, split(mux, zip(mux)))
}

// answerWith sets the handler of requests.
func (s *Server) answerWith(h http.Handler) {
	s.handler, s.outer = s.recovered(s.timed(h)), s.recovered(s.guarded(s.timed(h)))
}

// Handler returns the API as an http.Handler, for requests from outside the cluster.
func (s *Server) Handler() http.Handler { return s.outer }

// Serve serves the listeners until ctx ends, and then waits a moment for running
// requests. Connections of inner listeners come from machines of the cluster, which
// apply the connection limit and check origins themselves, so neither applies here.
func (s *Server) Serve(ctx context.Context, l net.Listener, inner ...net.Listener) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           s.outer,
		ReadHeaderTimeout: cmp.Or(s.cfg.HeaderTimeout, readHeaderTimeout),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	if s.backend != nil {
		fed := make(chan struct{})
		go func() { defer close(fed); s.Feed(base) }()
		defer func() { cancel(); <-fed }()
	}
	within := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: srv.ReadHeaderTimeout, IdleTimeout: srv.IdleTimeout,
		MaxHeaderBytes: srv.MaxHeaderBytes, ErrorLog: srv.ErrorLog, BaseContext: srv.BaseContext,
	}
	done := make(chan error, 1+len(inner))
	outer := connlimit.New(l, cmp.Or(s.cfg.ConnsPerClient, connlimit.Default), tooMany())
	if s.cfg.TLS != nil {
		outer = newHandshakes(outer, s.cfg.TLS, cmp.Or(s.cfg.Handshake, DefaultHandshake))
	}
	go func() { done <- srv.Serve(outer) }()
	for _, more := range inner {
		go func() { done <- within.Serve(more) }()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	cancel() // ends blocking queries and streams
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	for _, each := range []*http.Server{srv, within} {
		if err := each.Shutdown(grace); err != nil {
			_ = each.Close()
		}
	}
	for range 1 + len(inner) {
		<-done
	}
	return nil
}

const refusal = "Your IP is issuing too many concurrent connections, please rate limit your calls\n"

// tooMany returns the answer to a connection above the limit.
func tooMany() []byte {
	return []byte("HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(len(refusal)) + "\r\nConnection: close\r\n\r\n" + refusal)
}

// recovered turns a panic of a handler into status 500 and a log line with the
// request. It leaves out the query, which may contain secrets.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		defer func() {
			v := recover()
			s.log.Debug("request complete", "method", r.Method, "path", r.URL.Path, "duration", time.Since(began))
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.log.Error("a request handler panicked; this is a defect of drover", "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			writeError(w, http.StatusInternalServerError, "internal error: the request handler panicked; see the agent's log")
		}()
		next.ServeHTTP(w, r)
	})
}

// withHeaders adds the configured headers to every answer.
func withHeaders(headers map[string]string, next http.Handler) http.Handler {
	if len(headers) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range headers {
			w.Header().Set(k, v)
		}
		next.ServeHTTP(w, r)
	})
}

// split routes streams and protocol upgrades around the compressing wrapper.
func split(plain, zipped http.Handler) http.Handler {
	pieces := pathsOf(func(a *action) bool { return a.stream })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := zipped
		if r.Header.Get("Upgrade") != "" {
			h = plain
		}
		if matchAny(pieces, r.URL.Path) {
			w.Header().Set("Vary", "Accept-Encoding") // as for compressed answers
			h = plain
		}
		h.ServeHTTP(w, r)
	})
}
