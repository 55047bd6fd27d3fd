// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"container/heap"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// Pause stops or resumes delivery. Outstanding evaluations stay with their workers,
// and Enqueue still works.
func (b *Broker) Pause(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = on
	b.wakeAll()
}

// Forget drops an evaluation that has ended. If a worker holds it, it stays there
// until its ack and is not processed again.
func (b *Broker) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unhold(id)
	en := b.known[id]
	switch {
	case en == nil:
	case en.token != "":
		en.again = nil
	default:
		b.drop(en)
	}
}

// drop removes an entry that no worker holds.
func (b *Broker) drop(en *entry) {
	b.unknow(en)
	if en.in != nil {
		heap.Remove(en.in, en.index)
		b.settle(en.lane)
		b.release(en)
		return
	}
	b.undelay(en)
	key := model.JobKey{Namespace: en.eval.Namespace, ID: en.eval.JobID}
	if b.busy[key] == en.eval.ID { // it was nacked and waits for its retry
		b.release(en)
		return
	}
	if w := slices.DeleteFunc(b.waiting[key], func(x *entry) bool { return x == en }); len(w) > 0 {
		b.waiting[key] = w
	} else {
		delete(b.waiting, key)
	}
}

// Has reports whether the broker has this version of an evaluation or a newer one.
func (b *Broker) Has(e *model.Evaluation) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	en := b.known[e.ID]
	return en != nil && (en.eval.ModifyIndex >= e.ModifyIndex || en.again != nil && en.again.ModifyIndex >= e.ModifyIndex)
}

// Known returns the ids of all evaluations in the broker.
func (b *Broker) Known() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.known))
}
