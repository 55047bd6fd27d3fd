// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/connlimit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of the sockets of tasks, beside the limits of all requests.
const (
	connsPerTask    = 32
	taskHeaderBytes = 64 << 10
	tokenTimeout    = 10 * time.Second // time limit for checking a token
)

// ServeTasks serves the API to tasks, over their sockets, until ctx ends. Unlike the port,
// it always needs a token, because a socket is not secret. check returns nil for the token
// of a living task, and an error of class PermissionDenied for any other text.
func (s *Server) ServeTasks(ctx context.Context, l net.Listener, check func(ctx context.Context, token string) error) error {
	srv := &http.Server{
		Handler: s.withToken(check, s.handler), ReadHeaderTimeout: cmp.Or(s.cfg.HeaderTimeout, readHeaderTimeout), IdleTimeout: idleTimeout, MaxHeaderBytes: taskHeaderBytes,
		ErrorLog:    s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() }) // running requests have ended with ctx
	defer stop()
	err := srv.Serve(connlimit.New(l, connsPerTask, tooMany()))
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// withToken answers requests without the token of a living task with an error.
func (s *Server) withToken(check func(context.Context, string) error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := tokenOf(r)
		if token == "" {
			writeError(w, http.StatusUnauthorized, "Unauthorized: this socket needs the task's token in the header X-Nomad-Token; a task gets one with identity { env = true } or identity { file = true }")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), tokenTimeout)
		err := check(ctx, token)
		cancel()
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errdefs.IsPermissionDenied(err), errdefs.IsInvalidArgument(err):
			writeError(w, http.StatusForbidden, "Permission denied: "+err.Error())
		default:
			writeError(w, statusOf(err), err.Error())
		}
	})
}

// tokenOf returns the token that a request shows, "" if it shows none.
func tokenOf(r *http.Request) string {
	if token := r.Header.Get("X-Nomad-Token"); token != "" {
		return token
	}
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}
