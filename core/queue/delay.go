// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"container/heap"
	"context"
	"time"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/sleep"
)

// delayHeap is a heap of entries by the time at which to act.
type delayHeap []*entry

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h delayHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *delayHeap) Push(x any) {
	x.(*entry).index = len(*h)
	*h = append(*h, x.(*entry))
}
func (h *delayHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	x.index = -1
	*h = old[:len(old)-1]
	return x
}

func (b *Broker) delay(en *entry, due time.Time) {
	en.due = due
	heap.Push(&b.delayed, en)
	if en.index == 0 {
		select {
		case b.timer <- struct{}{}:
		default:
		}
	}
}

// undelay takes an entry that is not ready out of the delayed ones, if it is one.
func (b *Broker) undelay(en *entry) {
	if en.index >= 0 {
		heap.Remove(&b.delayed, en.index)
	}
}

// Run is the timer loop: it makes delayed evaluations ready and takes evaluations back
// whose nack timeout has passed. It ends with ctx.
func (b *Broker) Run(ctx context.Context) {
	for {
		var timer <-chan time.Time
		if wait, ok := b.expire(); ok {
			timer = b.cfg.Clock.After(min(wait, sleep.Longest))
		}
		select {
		case <-ctx.Done():
			return
		case <-b.timer:
		case <-timer:
		}
	}
}

// expire handles everything that is due and returns the time until the next entry.
func (b *Broker) expire() (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Clock.Now()
	for len(b.delayed) > 0 {
		en := b.delayed[0]
		if wait := en.due.Sub(now); wait > 0 {
			return wait, true
		}
		heap.Pop(&b.delayed)
		if p := panics.Catch(func() { b.act(en) }); p != nil {
			b.forget(en, p)
		}
	}
	return 0, false
}

// act carries out the action for which an entry was delayed.
func (b *Broker) act(en *entry) {
	if en.token != "" {
		b.retry(en)
	} else {
		b.makeReady(en)
	}
}

// forget drops an evaluation at which the broker has panicked: it stays pending in state,
// where an operator sees it, and others go on. The next leader tries it again.
func (b *Broker) forget(en *entry, p *panics.Panic) {
	for id, one := range b.known {
		if one != en {
			continue
		}
		delete(b.known, id)
		if en.lane.depth--; en.token != "" {
			en.lane.unacked--
		}
		for key, holder := range b.busy {
			if holder == id {
				delete(b.busy, key)
			}
		}
		if b.cfg.Logger != nil {
			b.cfg.Logger.Error("the broker panicked at an evaluation, which is not processed until another server leads; this is a defect of drover", p.Fields("eval_id", id)...)
		}
	}
}
