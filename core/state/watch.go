// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"slices"
	"sync"
)

// Indexes by which rows can be watched, besides their id.
const (
	ByJob        = "job"        // Value: JobKey(namespace, id); allocs, evals, deployments
	ByNode       = "node"       // Value: node id; allocs
	ByEval       = "eval"       // Value: eval id; allocs
	ByDeployment = "deployment" // Value: deployment id; allocs
)

// Key names what is watched: a table (Value is ""), a row by its id (By is ""), or the
// rows that have a value in an index (By is one of the By constants). The id of a job
// or its summary is JobKey(namespace, id); the id of the scheduler configuration is
// "".
type Key struct {
	Table string
	By    string
	Value string
}

// watches holds channels that are closed at the first change of their key. A channel
// exists only while somebody waits.
type watches struct {
	mu    sync.Mutex
	armed map[Key][]*waiter
}

type waiter struct {
	keys []Key
	at   []int // by key: the position in the list of those who wait for it
	ch   chan struct{}
	stop func() bool // stops waiting for the end of its context
	gone bool        // it is in no list any more
}

// Watch returns a channel that is closed at the first commit after the call that
// changes any of the keys. Call it before you take the View, or a change in between is
// missed. When ctx ends, the watch is removed without closing the channel.
func (s *Store) Watch(ctx context.Context, keys ...Key) <-chan struct{} {
	w := &waiter{keys: keys, at: make([]int, len(keys)), ch: make(chan struct{})}
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if s.watches.armed == nil {
		s.watches.armed = map[Key][]*waiter{}
	}
	for i, k := range keys {
		w.at[i] = len(s.watches.armed[k])
		s.watches.armed[k] = append(s.watches.armed[k], w)
	}
	w.stop = context.AfterFunc(ctx, func() { s.watches.drop(w) })
	return w.ch
}

// drop removes a waiter.
func (ws *watches) drop(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.remove(w)
}

// nowhere is the position of a waiter in a list from which it was removed.
const nowhere = -1

// remove removes a waiter from all its keys, at a cost that does not depend on how many wait
// for them: thousands of blocking queries may wait for one table, and a commit removes them
// all. The lock must be held.
func (ws *watches) remove(w *waiter) {
	if w.gone {
		return
	}
	w.gone = true
	for i, k := range w.keys {
		list := ws.armed[k]
		at, last := w.at[i], len(list)-1
		w.at[i] = nowhere
		if at != last {
			list[at] = list[last]
			list[at].moved(k, last, at)
		}
		list[last] = nil
		if last == 0 {
			delete(ws.armed, k)
		} else {
			ws.armed[k] = list[:last]
		}
	}
}

// moved notes that the waiter is at another position in the list of a key.
func (w *waiter) moved(k Key, from, to int) {
	for i := range w.keys {
		if w.keys[i] == k && w.at[i] == from {
			w.at[i] = to
			return
		}
	}
}

// fire closes the channels of the keys that the changes touch.
func (ws *watches) fire(changes []Change) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.wake(anyCommit)
	for i := range changes {
		if len(ws.armed) == 0 {
			return
		}
		c := &changes[i]
		ws.wake(Key{Table: c.Table})
		if c.Old != nil {
			ws.wakeRow(c.Table, c.Old)
		}
		if c.New != nil {
			ws.wakeRow(c.Table, c.New)
		}
	}
}

// all closes every channel, after a restore.
func (ws *watches) all() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for k := range ws.armed {
		ws.wake(k)
	}
}

func (ws *watches) wake(k Key) {
	list := ws.armed[k]
	if len(list) == 0 {
		return
	}
	for _, w := range slices.Clone(list) {
		if w.gone { // it waits for the key twice
			continue
		}
		close(w.ch)
		w.stop()
		ws.remove(w)
	}
}

// wakeRow wakes the waiters of a row, by its id and by the watched indexes.
func (ws *watches) wakeRow(table string, row any) {
	wake := func(by, value string) {
		if value != "" {
			ws.wake(Key{Table: table, By: by, Value: value})
		}
	}
	named[table].wake(row, wake)
}

// Watchers returns the number of active watches, for metrics.
func (s *Store) Watchers() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	seen := map[*waiter]bool{}
	for _, list := range s.watches.armed {
		for _, w := range list {
			seen[w] = true
		}
	}
	return len(seen)
}
