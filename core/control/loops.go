// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package control

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/core/state"
)

// Backoff of a key whose decision failed.
const (
	minBackoff = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// together is the maximum number of keys of an independent controller in one log
// entry.
const together = 256

// Loops runs controllers, each in a loop of its own, while this server leads.
type Loops struct {
	store  *state.Store
	log    propose.Log
	logger hclog.Logger
	newID  func() string

	mu    sync.Mutex
	stats map[string]*Stats
}

// Stats are a controller's counters since the process started.
type Stats struct {
	Decisions uint64 // decisions taken
	Commands  uint64 // commands committed
	Failures  uint64 // errors and panics
	LastError string
}

// NewLoops returns Loops; newID generates UUIDs.
func NewLoops(store *state.Store, log propose.Log, newID func() string, logger hclog.Logger) *Loops {
	return &Loops{store: store, log: log, newID: newID, logger: logger, stats: map[string]*Stats{}}
}

// Stats returns a copy of the counters by controller.
func (s *Loops) Stats() map[string]Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Stats, len(s.stats))
	for name, st := range s.stats {
		out[name] = *st
	}
	return out
}

// Run runs the controllers until ctx ends, then returns once all have stopped.
func (s *Loops) Run(ctx context.Context, controllers ...Controller) {
	var wg sync.WaitGroup
	for _, c := range controllers {
		decl := c.Declare()
		s.mu.Lock()
		if s.stats[decl.Name] == nil {
			s.stats[decl.Name] = &Stats{}
		}
		s.mu.Unlock()
		wg.Go(func() { s.loop(ctx, c, decl) })
	}
	wg.Wait()
}

// loop runs one controller: it receives changes and decides about keys that are dirty
// or due.
func (s *Loops) loop(ctx context.Context, c Controller, decl Declaration) {
	feed := s.store.Subscribe(decl.Wakes...)
	defer feed.Close()
	r := &run{Loops: s, c: c, decl: decl, logger: s.logger.Named(decl.Name), timers: timerHeap{at: map[string]*timer{}}, failures: map[string]int{}}
	r.addAll()
	atOnce := 1
	if decl.Independent {
		atOnce = together
	}
	for ctx.Err() == nil {
		if keys := r.queue.take(atOnce); len(keys) > 0 {
			r.decide(ctx, keys)
			continue
		}
		// The only errors are the end of the wait by a timer or by ctx.
		if batch, err := r.next(ctx, feed); err == nil {
			r.take(batch)
		}
		r.queue.addAll(r.timers.due(time.Now()))
	}
}

// run is the state of one controller's loop. Only the loop's goroutine uses it.
type run struct {
	*Loops
	c        Controller
	decl     Declaration
	logger   hclog.Logger
	queue    dirtyQueue
	timers   timerHeap
	failures map[string]int
}

// next waits for changes until the earliest timer.
func (r *run) next(ctx context.Context, feed *state.Feed) (state.Batch, error) {
	if at, ok := r.timers.next(); ok {
		timed, cancel := context.WithTimeout(ctx, min(time.Until(at), sleep.Longest))
		defer cancel()
		return feed.Next(timed)
	}
	return feed.Next(ctx)
}

// take marks the keys of a batch as dirty; after lost changes, all keys.
func (r *run) take(batch state.Batch) {
	if batch.Resync {
		r.addAll()
		return
	}
	for _, change := range batch.Changes {
		if p := panics.Catch(func() { r.queue.addAll(r.c.Keys(change)) }); p != nil {
			r.logger.Error("a change is not acted upon; this is a defect of drover", p.Fields("table", change.Table, "index", change.Index)...)
		}
	}
}

// addAll makes every key dirty. If the controller panics, only changes make keys dirty
// until the feed loses some and everything is read again.
func (r *run) addAll() {
	keys, err := All(r.c, r.store.View())
	if err != nil {
		r.logger.Error("what there is to decide is not known; this is a defect of drover", "error", err)
	}
	r.queue.addAll(keys)
}

// decide decides about keys and proposes the commands as one entry.
func (r *run) decide(ctx context.Context, keys []string) {
	in := Input{View: Restrict(r.store.View(), r.decl), Now: time.Now(), NewID: r.newID}
	decisions, errs := make([]Decision, len(keys)), make([]error, len(keys))
	var commands []fsm.Command
	for i, key := range keys {
		if decisions[i], errs[i] = decide(r.c, in, key); errs[i] == nil {
			commands = append(commands, decisions[i].Commands...)
		}
	}
	var refused error
	if len(commands) > 0 {
		_, refused = propose.Bounded(ctx, r.log, commands...)
	}
	for i, key := range keys {
		if errs[i] == nil && len(decisions[i].Commands) > 0 {
			errs[i] = refused
		}
		r.settle(ctx, key, in.Now, decisions[i], errs[i])
	}
}

// settle counts the result of a decision and sets when to decide again.
func (r *run) settle(ctx context.Context, key string, now time.Time, d Decision, err error) {
	r.count(len(d.Commands), err)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		r.failures[key]++
		wait := min(minBackoff<<min(r.failures[key]-1, 10), maxBackoff)
		r.logger.Error("could not act; trying again", "key", key, "in", wait, "error", err)
		r.timers.set(key, now.Add(wait))
		return
	}
	delete(r.failures, key)
	r.timers.set(key, d.Wake)
}

func (r *run) count(commands int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.stats[r.decl.Name]
	st.Decisions++
	if err != nil {
		st.Failures++
		st.LastError = err.Error()
		return
	}
	st.Commands += uint64(commands)
}

// dirtyQueue is a first-in first-out queue without duplicates.
type dirtyQueue struct {
	keys []string
	in   map[string]bool
}

func (q *dirtyQueue) addAll(keys []string) {
	if q.in == nil {
		q.in = map[string]bool{}
	}
	for _, k := range keys {
		if !q.in[k] {
			q.in[k] = true
			q.keys = append(q.keys, k)
		}
	}
}

// take removes and returns the first n keys, or as many as there are.
func (q *dirtyQueue) take(n int) []string {
	n = min(n, len(q.keys))
	keys := q.keys[:n:n]
	q.keys = q.keys[n:]
	for _, k := range keys {
		delete(q.in, k)
	}
	return keys
}

// timerHeap holds at most one time per key.
type timerHeap struct {
	heap timers
	at   map[string]*timer
}

type timer struct {
	key string
	at  time.Time
	pos int
}

// set replaces the time of key; the zero time removes it.
func (h *timerHeap) set(key string, at time.Time) {
	t, ok := h.at[key]
	switch {
	case at.IsZero() && ok:
		heap.Remove(&h.heap, t.pos)
		delete(h.at, key)
	case at.IsZero():
	case ok:
		t.at = at
		heap.Fix(&h.heap, t.pos)
	default:
		t = &timer{key: key, at: at}
		h.at[key] = t
		heap.Push(&h.heap, t)
	}
}

func (h *timerHeap) next() (time.Time, bool) {
	if len(h.heap) == 0 {
		return time.Time{}, false
	}
	return h.heap[0].at, true
}

// due removes and returns the keys whose time has come.
func (h *timerHeap) due(now time.Time) []string {
	var keys []string
	for len(h.heap) > 0 && !h.heap[0].at.After(now) {
		t := heap.Pop(&h.heap).(*timer)
		delete(h.at, t.key)
		keys = append(keys, t.key)
	}
	return keys
}

type timers []*timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timers) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].pos, h[j].pos = i, j }
func (h *timers) Push(x any)        { t := x.(*timer); t.pos = len(*h); *h = append(*h, t) }
func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}
