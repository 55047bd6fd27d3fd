// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/state"
)

// waitJitter is the fraction of a wait by which equal waits are spread at random.
const waitJitter = 16

// query holds the parsed parameters of a read.
type query struct {
	s         *Server
	r         *http.Request
	namespace string // "*" means all namespaces
	minIndex  uint64
	wait      time.Duration
	mode      ReadMode
	elsewhere bool        // the leader answers
	header    http.Header // header of the answer
	index     uint64      // index of the answer, for answers that repeat it in their body
}

func namespaceOf(r *http.Request) string {
	if ns := paramsOf(r).get("namespace"); ns != "" {
		return ns
	}
	return "default"
}

// parse reads the parameters about waiting and freshness.
func (q *query) parse() error {
	p := paramsOf(q.r)
	q.wait = defaultWait
	var err error
	if v := p.get("index"); v != "" {
		if q.minIndex, err = strconv.ParseUint(v, 10, 64); err != nil {
			return fail(http.StatusBadRequest, "Invalid index")
		}
	}
	if v := p.get("wait"); v != "" {
		if q.wait, err = time.ParseDuration(v); err != nil || q.wait < 0 {
			return fail(http.StatusBadRequest, "Invalid wait time")
		}
	}
	q.wait = min(q.wait, maxWait)
	q.wait += rand.N(q.wait/waitJitter + 1)
	q.mode = modeOf(p)
	return nil
}

// prefix returns the prefix parameter of a list.
func (q *query) prefix() string { return paramsOf(q.r).get("prefix") }

// inNamespace reports whether the read covers the namespace.
func (q *query) inNamespace(ns string) bool { return q.namespace == "*" || q.namespace == ns }

// stateNamespace returns the namespace in the form that View's lists take.
func (q *query) stateNamespace() string {
	if q.namespace == "*" {
		return ""
	}
	return q.namespace
}

// flag returns the value of a boolean parameter. The row of the route declares it with
// a "?", so that read has rejected other values.
func (q *query) flag(name string) bool {
	set, err := boolParam(q.r, name)
	return err == nil && set
}

// read answers a read from a View, and blocks until a change if the client asks for
// it.
func (s *Server) read(w http.ResponseWriter, r *http.Request, rt *route) (any, error) {
	q, look, err := s.begin(w.Header(), r, rt)
	if err != nil {
		return nil, err
	}
	meta, err := s.backend.Ready(r.Context(), q.mode)
	if err != nil {
		return nil, err
	}
	keys := rt.does.keysOf(q)
	timeout, cancel := context.WithTimeout(r.Context(), q.wait)
	defer cancel()
	for {
		a, again := s.lookOnce(r.Context(), q, keys, look, timeout.Done())
		if again {
			continue
		}
		if q.minIndex != 0 { // after a wait another server may lead
			if meta, err = s.backend.Ready(r.Context(), q.mode); err != nil {
				return nil, err
			}
		}
		return finish(w, meta, a)
	}
}

// begin reads the parameters of a read.
func (s *Server) begin(header http.Header, r *http.Request, rt *route) (*query, look, error) {
	q := &query{s: s, r: r, header: header, namespace: namespaceOf(r)}
	look, err := rt.does.begin(r, q)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range rt.flags {
		if _, err := boolParam(r, name); err != nil {
			return nil, nil, err
		}
	}
	return q, look, q.parse()
}

// waits reports whether a blocking query continues to wait after an answer with this
// status. A query that only waits on this server and is answered by the leader also
// continues while this server cannot show the object, for example because it has not
// received the key of a variable.
func (q *query) waits(status int) bool {
	return status == http.StatusNotFound || q.elsewhere && status >= http.StatusInternalServerError
}

// lookOnce evaluates the read once, and waits for a change if the client already has
// the result. It returns true after a change, so that the caller evaluates again.
func (s *Server) lookOnce(ctx context.Context, q *query, keys []state.Key, look look, timeout <-chan struct{}) (answer, bool) {
	if q.minIndex == 0 {
		a := look(s.backend.View(), q)
		a.index = max(a.index, firstIndex)
		return a, false
	}
	ctx, forget := context.WithCancel(ctx)
	defer forget()
	changed := s.backend.Watch(ctx, keys...)
	a := look(s.backend.View(), q)
	a.index = max(a.index, firstIndex)
	if a.index > q.minIndex || a.err != nil && !q.waits(statusOf(a.err)) {
		return a, false
	}
	select {
	case <-changed:
		return a, true
	case <-timeout:
	case <-ctx.Done():
	}
	return a, false
}

func finish(w http.ResponseWriter, meta ReadMeta, a answer) (any, error) {
	if a.err != nil && statusOf(a.err) != http.StatusNotFound {
		return nil, a.err
	}
	setReadMeta(w, a.index, meta)
	if a.nextToken != "" {
		w.Header().Set("X-Nomad-NextToken", a.nextToken)
	}
	return a.value, a.err
}
