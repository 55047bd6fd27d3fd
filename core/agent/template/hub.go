// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/core/sleep"
)

// fetchGrace is how much longer a Source may take than the wait that was requested.
const fetchGrace = 30 * time.Second

// hub keeps one watch per query of the node, regardless of the number of templates.
type hub struct {
	cfg Config

	mu      sync.Mutex
	watches map[Query]*watch
	version uint64 // version of the newest answer to any query
}

// watch repeats one query.
type watch struct {
	query   Query
	readers map[*Runner]struct{}
	cancel  context.CancelFunc

	answer  Answer
	version uint64 // 0 before the first answer
	err     error  // error of the last try
	errors  int    // ever
}

func newHub(cfg Config) *hub { return &hub{cfg: cfg, watches: map[Query]*watch{}} }

// subscribe registers r, which is woken when the answer changes. It returns how often the
// query has failed so far.
func (h *hub) subscribe(q Query, r *Runner) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watches[q]
	if w == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w = &watch{query: q, readers: map[*Runner]struct{}{}, cancel: cancel}
		h.watches[q] = w
		go h.run(ctx, w)
	}
	w.readers[r] = struct{}{}
	return w.errors
}

func (h *hub) unsubscribe(q Query, r *Runner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.watches[q]
	if w == nil {
		return
	}
	if delete(w.readers, r); len(w.readers) == 0 {
		w.cancel()
		delete(h.watches, q)
	}
}

// answer returns the last answer and its version, and whether there is one.
func (h *hub) answer(q Query) (Answer, uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.watches[q]; w != nil && w.version > 0 {
		return w.answer, w.version, true
	}
	return Answer{}, 0, false
}

// trouble returns how often a query has failed, and the error of the last attempt.
func (h *hub) trouble(q Query) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.watches[q]; w != nil {
		return w.errors, w.err
	}
	return 0, nil
}

// newer reports whether one of the answers has changed.
func (h *hub) newer(seen map[Query]uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for q, v := range seen {
		if w := h.watches[q]; w != nil && w.version != v {
			return true
		}
	}
	return false
}

// run repeats the query until nobody needs the answer.
func (h *hub) run(ctx context.Context, w *watch) {
	var since uint64
	failed := 0
	for ctx.Err() == nil {
		began := time.Now()
		answer, err := h.fetch(ctx, w.query, since)
		if ctx.Err() != nil {
			return
		}
		var pause time.Duration
		switch {
		case err != nil:
			failed++
			pause = backoff(*h.cfg.Retry, failed)
			if failed == 1 {
				h.cfg.Logger.Warn("what templates read cannot be had; the last files stay, and it is tried again", "query", w.query.String(), "error", err)
			}
		case failed > 0:
			failed = 0
			h.cfg.Logger.Info("the data that templates read is available again", "query", w.query.String())
		}
		changed := err == nil && (answer.Index != since || since == 0)
		if err == nil {
			if since = max(answer.Index, 1); !changed && time.Since(began) < time.Second {
				pause = time.Second // a source that does not wait
			}
		}
		h.store(w, answer, err, changed)
		_ = sleep.For(ctx, pause)
	}
}

func (h *hub) fetch(ctx context.Context, q Query, since uint64) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.BlockQueryWait+fetchGrace)
	defer cancel()
	return h.cfg.Source.Fetch(ctx, q, FetchOptions{Since: since, Wait: h.cfg.BlockQueryWait, MaxStale: h.cfg.MaxStale})
}

func (h *hub) store(w *watch, a Answer, err error, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.err = err
	if err != nil {
		w.errors++
	}
	if changed {
		h.version++
		w.answer, w.version = a, h.version
	}
	if !changed && err == nil {
		return
	}
	for r := range w.readers {
		r.poke()
	}
}

func backoff(c RetryConfig, failed int) time.Duration {
	d := max(c.Backoff, 10*time.Millisecond)
	limit := max(c.MaxBackoff, d)
	for range min(failed-1, 40) {
		if d *= 2; d >= limit {
			return jitter(limit)
		}
	}
	return jitter(d)
}
