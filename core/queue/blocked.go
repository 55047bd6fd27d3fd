// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"maps"
	"slices"
	"sync"

	"github.com/drover-project/drover/core/model"
)

// Blocked holds evaluations that wait for resources. For each node class it stores the
// index at which resources last became available, so that an evaluation which was
// planned on older state and arrives late is not missed.
type Blocked struct {
	enqueue func(...*model.Evaluation)

	mu      sync.Mutex
	enabled bool
	evals   map[string]*model.Evaluation // by id
	byJob   map[model.JobKey]string
	seen    map[string]uint64 // class -> index at which it last gained resources
	any     uint64            // index of the last UnblockAll
	stale   []*model.Evaluation
}

// NewBlocked returns an empty Blocked. It calls enqueue, a Broker's Enqueue, with
// evaluations that may now succeed.
func NewBlocked(enqueue func(...*model.Evaluation)) *Blocked {
	b := &Blocked{enqueue: enqueue}
	b.reset()
	return b
}

func (b *Blocked) reset() {
	b.evals, b.byJob, b.seen, b.any, b.stale = map[string]*model.Evaluation{}, map[model.JobKey]string{}, map[string]uint64{}, 0, nil
}

// SetEnabled enables or disables the queue. Disabling drops all evaluations.
func (b *Blocked) SetEnabled(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enabled = on
	if !on {
		b.reset()
	}
}

// Block holds an evaluation, or enqueues it at once if resources became available
// after the state on which it was planned. An older evaluation of the same job is
// superseded.
func (b *Blocked) Block(e *model.Evaluation) {
	if b.block(e) {
		b.enqueue(e)
	}
}

// block keeps an evaluation. It reports whether to enqueue it at once instead.
func (b *Blocked) block(e *model.Evaluation) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.enabled {
		return false
	}
	key := model.JobKey{Namespace: e.Namespace, ID: e.JobID}
	if old := b.evals[b.byJob[key]]; old != nil && old.ID != e.ID {
		if old.CreateIndex > e.CreateIndex && e.CreateIndex != 0 {
			b.stale = append(b.stale, e)
			return false
		}
		b.stale = append(b.stale, old)
		delete(b.evals, old.ID)
	}
	if b.missed(e) {
		delete(b.byJob, key)
		return true
	}
	b.evals[e.ID], b.byJob[key] = e, e.ID
	return false
}

// missed reports whether resources that may help became available after the
// evaluation's snapshot.
func (b *Blocked) missed(e *model.Evaluation) bool {
	if b.any > e.SnapshotIndex {
		return true
	}
	for class, index := range b.seen {
		if index > e.SnapshotIndex && helps(e, class) {
			return true
		}
	}
	return false
}

// helps reports whether resources on a node of the class may let the evaluation
// succeed.
func helps(e *model.Evaluation, class string) bool {
	ok, known := e.ClassEligibility[class]
	return e.EscapedComputedClass || ok || !known
}

// Unblock enqueues the evaluations that resources on a node of the class may help.
// index is the state's index at which they became available; evaluations that were
// planned on that state or a newer one have seen them.
func (b *Blocked) Unblock(class string, index uint64) {
	b.release(func() { b.seen[class] = max(b.seen[class], index) },
		func(e *model.Evaluation) bool { return e.SnapshotIndex < index && helps(e, class) })
}

// release calls note and enqueues the evaluations for which which is true.
func (b *Blocked) release(note func(), which func(*model.Evaluation) bool) {
	b.enqueue(func() []*model.Evaluation {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.enabled {
			return nil
		}
		note()
		return b.take(which)
	}()...)
}

// UnblockNode enqueues the evaluations that wait for one node (system jobs).
func (b *Blocked) UnblockNode(nodeID string, index uint64) {
	b.release(func() {}, func(e *model.Evaluation) bool { return e.SnapshotIndex < index && e.NodeID == nodeID })
}

// UnblockAll enqueues all evaluations that were planned on a state before index: the
// scheduler configuration or a quota has changed, or changes were lost.
func (b *Blocked) UnblockAll(index uint64) {
	b.release(func() { b.any = max(b.any, index) }, func(e *model.Evaluation) bool { return e.SnapshotIndex < index })
}

// Untrack drops the blocked evaluation of a job that was stopped or changed at the
// index, because the job's next evaluation replaces it. An evaluation that was planned
// on the changed job is kept.
func (b *Blocked) Untrack(namespace, jobID string, index uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := model.JobKey{Namespace: namespace, ID: jobID}
	if e := b.evals[b.byJob[key]]; e != nil && e.SnapshotIndex < index {
		b.stale = append(b.stale, e)
		delete(b.evals, e.ID)
		delete(b.byJob, key)
	}
}

// Forget drops an evaluation that is no longer blocked in state.
func (b *Blocked) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.evals[id]
	if e == nil {
		return
	}
	delete(b.evals, id)
	delete(b.byJob, model.JobKey{Namespace: e.Namespace, ID: e.JobID})
}

// Known returns the ids of all held evaluations.
func (b *Blocked) Known() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.evals))
}

func (b *Blocked) take(which func(*model.Evaluation) bool) []*model.Evaluation {
	var out []*model.Evaluation
	for id, e := range b.evals {
		if which(e) {
			out = append(out, e)
			delete(b.evals, id)
			delete(b.byJob, model.JobKey{Namespace: e.Namespace, ID: e.JobID})
		}
	}
	return out
}

// Cancelled returns and clears the list of superseded evaluations, which the caller
// must mark as canceled.
func (b *Blocked) Cancelled() []*model.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.stale
	b.stale = nil
	return out
}

// Len returns the number of held evaluations.
func (b *Blocked) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.evals)
}
