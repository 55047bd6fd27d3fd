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
	r         *http.Request
	namespace string // "*" means all namespaces
	minIndex  uint64
	wait      time.Duration
	mode      ReadMode
}

func namespaceOf(r *http.Request) string {
	if ns := paramsOf(r).get("namespace"); ns != "" {
		return ns
	}
	return "default"
}

func parseQuery(r *http.Request) (*query, error) {
	p := paramsOf(r)
	q := &query{r: r, namespace: namespaceOf(r), wait: defaultWait}
	var err error
	if v := p.get("index"); v != "" {
		if q.minIndex, err = strconv.ParseUint(v, 10, 64); err != nil {
			return nil, fail(http.StatusBadRequest, "Invalid index")
		}
	}
	if v := p.get("wait"); v != "" {
		if q.wait, err = time.ParseDuration(v); err != nil || q.wait < 0 {
			return nil, fail(http.StatusBadRequest, "Invalid wait time")
		}
	}
	q.wait = min(q.wait, maxWait)
	q.wait += rand.N(q.wait/waitJitter + 1)
	stale, consistent := p.has("stale") && p.get("stale") != "false", p.has("consistent")
	switch {
	case stale:
		q.mode = ReadStale
	case consistent:
		q.mode = ReadConsistent
	}
	return q, nil
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

// answer is the result of one evaluation of a read. Index is the index of the newest
// change in it; a blocking query waits until it exceeds the client's.
type answer struct {
	index     uint64
	value     any
	nextToken string
	err       error
}

// read answers a read from a View, and blocks until a change if the client asks for
// it.
func (s *Server) read(w http.ResponseWriter, r *http.Request, keys []state.Key, look func(View, *query) answer) (any, error) {
	q, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	meta, err := s.backend.Ready(r.Context(), q.mode)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	var timeout <-chan time.Time
	if q.minIndex > 0 {
		t := time.NewTimer(q.wait)
		defer t.Stop()
		timeout = t.C
	}
	for {
		a, again := s.lookOnce(ctx, q, keys, look, timeout)
		if !again {
			return finish(w, meta, a)
		}
	}
}

// lookOnce evaluates the read once, and waits for a change if the client already has
// the result. It returns true after a change, so that the caller evaluates again.
func (s *Server) lookOnce(ctx context.Context, q *query, keys []state.Key, look func(View, *query) answer, timeout <-chan time.Time) (answer, bool) {
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
	if a.index > q.minIndex || a.err != nil && statusOf(a.err) != http.StatusNotFound {
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

func tables(names ...string) []state.Key {
	keys := make([]state.Key, len(names))
	for i, n := range names {
		keys[i] = state.Key{Table: n}
	}
	return keys
}

// rows returns the watch key of the rows that belong to an object.
func rows(table, by, key string) []state.Key { return []state.Key{{Table: table, By: by, Value: key}} }

// rowsOfJob returns the watch keys of the rows in some tables that belong to a job,
// and of the job itself.
func rowsOfJob(r *http.Request, id string, names ...string) []state.Key {
	key := state.JobKey(namespaceOf(r), id)
	keys := []state.Key{{Table: state.TableJobs, Value: key}}
	for _, n := range names {
		keys = append(keys, state.Key{Table: n, By: state.ByJob, Value: key})
	}
	return keys
}

// notFound returns the answer for an object that does not exist.
func notFound(v View, table, text string) answer {
	return answer{index: v.TableIndex(table), err: fail(http.StatusNotFound, text)}
}
