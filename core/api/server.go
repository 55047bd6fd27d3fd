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
	"strconv"
	"strings"
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

// Config is what a Server needs besides its Backend.
type Config struct {
	EnableDebug bool              // serve /debug/pprof
	Prometheus  bool              // serve /v1/metrics?format=prometheus
	Headers     map[string]string // added to every answer; an origin that they allow by name may ask for everything
	// Hosts are the names by which clients call this agent, beside addresses and
	// localhost: "*.x" is every name below x, "*" any.
	Hosts []string
	// ConnsPerClient is how many connections one address may hold; 0 is the
	// default, below 0 is without a limit.
	ConnsPerClient int
	// EventBuffer is how many changes are kept for subscribers of the event stream that
	// are slow or come late; 0 is 4096.
	EventBuffer int
	// HeaderTimeout is how long a connection may take to send the head of a
	// request; 0 is 10 seconds.
	HeaderTimeout time.Duration
	// BodyTimeout is how long the body of a request may take that is kept in memory;
	// 0 is a minute. The file of a plugin or a snapshot may take as long as it brings
	// something twice in that time.
	BodyTimeout time.Duration
	// TLS is what the port speaks; nil is plain HTTP. Inner listeners are as secure
	// as what they are in.
	TLS *tls.Config
	// Handshake is how long a connection may take for the handshake of TLS; 0 is
	// DefaultHandshake.
	Handshake time.Duration
	// AgentOf hands requests on to the agent of another node; nil where none can be
	// reached.
	AgentOf func(nodeID string) (http.Handler, error)
}

// Server answers the public HTTP API.
type Server struct {
	local   Local
	backend Backend // nil where the agent is no server
	cfg     Config
	log     hclog.Logger
	handler http.Handler // of requests that the agents of the cluster hand on
	outer   http.Handler // of requests from elsewhere
	events  *eventLog
	bodies  atomic.Int64 // bytes of all requests in memory
}

// New returns a Server over the backend. Serve also feeds the event stream; who
// uses Handler alone runs Feed.
func New(backend Backend, log hclog.Logger, cfg Config) *Server {
	s := &Server{local: backend, backend: backend, cfg: cfg, log: log.Named("http"), events: newEventLog(cfg.EventBuffer)}
	mux := http.NewServeMux()
	s.routes(mux)
	if cfg.EnableDebug {
		debugRoutes(mux)
	}
	s.answerWith(s.wrapped(mux))
	return s
}

// wrapped is a mux with what all its answers have in common.
func (s *Server) wrapped(mux *http.ServeMux) http.Handler {
	zip, err := gzhttp.NewWrapper(gzhttp.MinSize(1400))
	if err != nil {
		panic("gzip options are constant: " + err.Error())
	}
	return withHeaders(s.cfg.Headers, split(mux, zip(mux)))
}

// answerWith sets what answers requests.
func (s *Server) answerWith(h http.Handler) {
	s.handler, s.outer = s.recovered(s.timed(h)), s.recovered(s.guarded(s.timed(h)))
}

// Handler is the API as an http.Handler, for requests from anywhere.
func (s *Server) Handler() http.Handler { return s.outer }

// Serve answers on the listener until ctx ends, then waits a moment for
// requests that are under way. Connections of inner listeners count for no
// client's limit, and their requests were let in already: they come from machines
// of the cluster, which have their own limit and looked at who asks.
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

// tooMany is the answer to a connection that is one too many.
func tooMany() []byte {
	return []byte("HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(len(refusal)) + "\r\nConnection: close\r\n\r\n" + refusal)
}

// recovered turns a panic of a handler into status 500 and a log line, and says
// in the log what was asked for. The query is left out: it may hold secrets.
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

// withHeaders adds configured headers to every answer.
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

// uncompressed are the paths whose answers come piece by piece, or not as HTTP:
// a compressor would hold small pieces back.
var uncompressed = []string{"/v1/client/fs/logs/", "/v1/client/fs/stream/", "/v1/agent/monitor", "/v1/event/stream", "/v1/operator/snapshot", "/v1/agent/pprof/"}

// split keeps streams and protocol upgrades away from the compressing wrapper.
func split(plain, zipped http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := zipped
		if r.Header.Get("Upgrade") != "" {
			h = plain
		}
		for _, p := range uncompressed {
			if strings.HasPrefix(r.URL.Path, p) {
				w.Header().Set("Vary", "Accept-Encoding") // as everywhere else
				h = plain
			}
		}
		h.ServeHTTP(w, r)
	})
}
