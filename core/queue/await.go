// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"container/heap"
	"time"

	"github.com/drover-project/drover/core/model"
)

// limit is when a held evaluation is tried again though nothing on which it depends changes.
type limit struct {
	at time.Time
	id string
}

type limitHeap []limit

func (h limitHeap) Len() int           { return len(h) }
func (h limitHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h limitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *limitHeap) Push(x any)        { *h = append(*h, x.(limit)) }
func (h *limitHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// await remembers on which jobs a held evaluation depends. b.mu is held.
func (b *Blocked) await(id string, need Need) {
	for _, on := range need.On {
		if b.awaited[on] == nil {
			b.awaited[on] = map[string]bool{}
		}
		b.awaited[on][id] = true
	}
	if !need.Until.IsZero() {
		heap.Push(&b.limits, limit{need.Until, id})
	}
}

// unawait forgets on which jobs an evaluation depends. Its limit stays in the heap until it
// passes or is the next one. b.mu is held.
func (b *Blocked) unawait(id string) {
	for _, on := range b.needs[id].On {
		delete(b.awaited[on], id)
		if len(b.awaited[on]) == 0 {
			delete(b.awaited, on)
		}
	}
}

// Awaits reports whether an evaluation depends on any job, so that changes of jobs matter.
func (b *Blocked) Awaits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.awaited) > 0
}

// Dependants returns the evaluations that depend on a job.
func (b *Blocked) Dependants(job model.JobKey) (out []*model.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.awaited[job] {
		out = append(out, b.evals[id])
	}
	return out
}

// Release enqueues an evaluation whose dependencies are met, if it is held.
func (b *Blocked) Release(id string) {
	b.mu.Lock()
	e := b.evals[id]
	if e != nil {
		b.remove(e)
	}
	b.mu.Unlock()
	if e != nil {
		b.enqueue(e)
	}
}

// ReleaseDue enqueues the evaluations that have waited until their limit.
func (b *Blocked) ReleaseDue(now time.Time) {
	for {
		b.mu.Lock()
		next, ok := b.nextLimit()
		if due := ok && !now.Before(next.at); due {
			heap.Pop(&b.limits)
		} else {
			ok = false
		}
		b.mu.Unlock()
		if !ok {
			return
		}
		b.Release(next.id)
	}
}

// NextLimit returns when the first of the limits passes; false if there is none.
func (b *Blocked) NextLimit() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next, ok := b.nextLimit()
	return next.at, ok
}

// nextLimit returns the first limit of an evaluation that is still held. b.mu is held.
func (b *Blocked) nextLimit() (limit, bool) {
	for len(b.limits) > 0 {
		next := b.limits[0]
		if b.needs[next.id].Until.Equal(next.at) && b.evals[next.id] != nil {
			return next, true
		}
		heap.Pop(&b.limits)
	}
	return limit{}, false
}
