// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// waitJitter is the part of the wait by which answers of equal waits spread.
const waitJitter = 16

// query is what the parameters of a read say.
type query struct {
	r         *http.Request
	namespace string // "*" is every namespace
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

// prefix is what the names or ids of a list begin with.
func (q *query) prefix() string { return paramsOf(q.r).get("prefix") }

// inNamespace reports whether the read covers the namespace.
func (q *query) inNamespace(ns string) bool { return q.namespace == "*" || q.namespace == ns }

// stateNamespace is the namespace as the View's lists take it.
func (q *query) stateNamespace() string {
	if q.namespace == "*" {
		return ""
	}
	return q.namespace
}

// answer is one evaluation of a read. Index is that of the newest change to
// what was read; a blocking query waits until it passes the client's.
type answer struct {
	index     uint64
	value     any
	nextToken string
	err       error
}

// read answers a read from a View, waiting for a change if the client asks to.
func (s *Server) read(w http.ResponseWriter, r *http.Request, keys []WatchKey, look func(View, *query) answer) (any, error) {
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

// lookOnce looks, and waits for a change if the client knows already what is
// there. It reports whether there was one: then it is time to look again.
func (s *Server) lookOnce(ctx context.Context, q *query, keys []WatchKey, look func(View, *query) answer, timeout <-chan time.Time) (answer, bool) {
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

func tables(names ...string) []WatchKey {
	keys := make([]WatchKey, len(names))
	for i, n := range names {
		keys[i] = WatchKey{Table: n}
	}
	return keys
}

// rows is the key of what belongs to something.
func rows(table, by, key string) []WatchKey { return []WatchKey{{Table: table, By: by, Key: key}} }

// rowsOfJob is the keys of what belongs to a job in some tables, and of the job itself.
func rowsOfJob(r *http.Request, id string, names ...string) []WatchKey {
	key := JobWatchKey(namespaceOf(r), id)
	keys := []WatchKey{{Table: TableJobs, Key: key}}
	for _, n := range names {
		keys = append(keys, WatchKey{Table: n, By: ByJob, Key: key})
	}
	return keys
}

// notFound is the answer for an object that is not there.
func notFound(v View, table, text string) answer {
	return answer{index: v.TableIndex(table), err: fail(http.StatusNotFound, text)}
}
