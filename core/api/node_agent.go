// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// NewNode returns the API of an agent that is only a node. It answers requests about
// this agent, its node and the allocs for which hasAlloc is true, and passes all
// others to servers.
func NewNode(local Local, hasAlloc func(id string) bool, servers http.Handler, log hclog.Logger, cfg Config) *Server {
	s := &Server{local: local, cfg: cfg, log: log.Named("http")}
	mux := http.NewServeMux()
	rows := localRoutes
	if cfg.EnableDebug {
		rows = slices.Concat(localRoutes, debugRoutes)
	}
	s.mount(mux, rows)
	here := s.wrapped(mux)
	s.answerWith(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isMine(r, hasAlloc) {
			here.ServeHTTP(w, r)
		} else {
			servers.ServeHTTP(w, r)
		}
	}))
	return s
}

// isMine reports whether an agent that is only a node answers a request itself.
func (s *Server) isMine(r *http.Request, hasAlloc func(id string) bool) bool {
	path := r.URL.Path
	switch path {
	case "/v1/metrics", "/v1/agent/self", "/v1/agent/servers", "/v1/agent/health", "/v1/agent/reload":
		return true
	case "/v1/client/metadata":
		return s.isMyNode(r, metaTarget(r))
	}
	if rest, ok := strings.CutPrefix(path, "/v1/client/allocation/"); ok {
		id, _, _ := strings.Cut(rest, "/")
		return hasAlloc(id)
	}
	if rest, ok := strings.CutPrefix(path, "/v1/client/fs/"); ok {
		_, id, _ := strings.Cut(rest, "/")
		return hasAlloc(id)
	}
	for _, prefix := range []string{"/v1/client/", "/v1/agent/plugin", "/v1/agent/host", "/v1/agent/pprof/", "/v1/agent/monitor", "/debug/pprof/"} {
		if strings.HasPrefix(path, prefix) {
			return s.isMyNode(r, "")
		}
	}
	return false
}

// isMyNode reports whether a request names this node (in its body or parameters) or no
// node.
func (s *Server) isMyNode(r *http.Request, named string) bool {
	q := paramsOf(r)
	if q.get("server_id") != "" {
		return false
	}
	if named == "" {
		named = q.get("node_id")
	}
	self := s.local.Identity().NodeID
	return named == "" || named == self || len(named) >= 4 && strings.HasPrefix(self, named)
}

// metaTarget returns the node that the body of a metadata change names. The handler
// reads the body again.
func metaTarget(r *http.Request) string {
	if r.Body == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return ""
	}
	inMemory(r)
	head, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), r.Body), r.Body}
	var body struct{ NodeID string }
	if err != nil || json.Unmarshal(head, &body) != nil {
		return "" // the handler reports the error
	}
	return body.NodeID
}
