// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Amount is room on a node.
type Amount struct{ CPU, Memory, Disk, Devices int64 }

// Most returns the larger amount of each kind.
func (a Amount) Most(b Amount) Amount {
	return Amount{max(a.CPU, b.CPU), max(a.Memory, b.Memory), max(a.Disk, b.Disk), max(a.Devices, b.Devices)}
}

// holds reports whether b fits into a.
func (a Amount) holds(b Amount) bool {
	return a.CPU >= b.CPU && a.Memory >= b.Memory && a.Disk >= b.Disk && a.Devices >= b.Devices
}

// Room is what is free on nodes of a class in a node pool.
type Room struct {
	Class, Pool string
	Free        Amount
}

// Need is what an evaluation waits for.
type Need struct {
	Pool    string   // "" and "all" mean nodes of any pool
	Amounts []Amount // any of these helps; empty means that the amount is unknown

	// NoRoom means that room is of no use: the evaluation waits only for dependencies.
	NoRoom bool
	// On are the jobs on whose allocs it depends. Until is when it is tried again even if
	// they do not change; zero means never.
	On    []model.JobKey
	Until time.Time
}

// Blocked holds evaluations that wait for resources. For each node class it stores the
// index at which resources last became available, so that an evaluation which was
// planned on older state and arrives late is not missed.
type Blocked struct {
	enqueue func(...*model.Evaluation)

	mu      sync.Mutex
	enabled bool
	evals   map[string]*model.Evaluation // by id
	needs   map[string]Need              // by id
	byJob   map[model.JobKey]string
	byNode  map[string]map[string]bool       // evals that wait for one node, by its id
	seen    map[string]uint64                // class -> index at which it last gained resources
	awaited map[model.JobKey]map[string]bool // job -> evals that depend on it
	limits  limitHeap                        // of those that depend on jobs
	any     uint64                           // index of the last UnblockAll
	stale   superseded
}

// NewBlocked returns an empty Blocked. It calls enqueue, a Broker's Enqueue, with
// evaluations that may now succeed.
func NewBlocked(enqueue func(...*model.Evaluation)) *Blocked {
	b := &Blocked{enqueue: enqueue, stale: newSuperseded()}
	b.reset()
	return b
}

func (b *Blocked) reset() {
	b.awaited, b.limits = map[model.JobKey]map[string]bool{}, nil
	b.evals, b.needs, b.byJob, b.byNode = map[string]*model.Evaluation{}, map[string]Need{}, map[model.JobKey]string{}, map[string]map[string]bool{}
	b.seen, b.any, b.stale.evals = map[string]uint64{}, 0, nil
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
func (b *Blocked) Block(e *model.Evaluation, need Need) {
	if b.block(e, need) {
		b.enqueue(e)
	}
}

// block keeps an evaluation. It reports whether to enqueue it at once instead.
func (b *Blocked) block(e *model.Evaluation, need Need) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.enabled {
		return false
	}
	key := model.JobKey{Namespace: e.Namespace, ID: e.JobID}
	if old := b.evals[b.byJob[key]]; old != nil && old.ID != e.ID {
		if old.CreateIndex > e.CreateIndex && e.CreateIndex != 0 {
			b.stale.add(e)
			return false
		}
		b.stale.add(old)
		b.remove(old)
	}
	if old := b.evals[e.ID]; old != nil {
		b.remove(old)
	}
	if !need.NoRoom && b.missed(e) {
		return true
	}
	b.evals[e.ID], b.needs[e.ID], b.byJob[key] = e, need, e.ID
	if e.NodeID != "" {
		if b.byNode[e.NodeID] == nil {
			b.byNode[e.NodeID] = map[string]bool{}
		}
		b.byNode[e.NodeID][e.ID] = true
	}
	b.await(e.ID, need)
	return false
}

func (b *Blocked) remove(e *model.Evaluation) {
	b.unawait(e.ID)
	delete(b.evals, e.ID)
	delete(b.needs, e.ID)
	delete(b.byJob, model.JobKey{Namespace: e.Namespace, ID: e.JobID})
	if ofNode := b.byNode[e.NodeID]; ofNode != nil {
		if delete(ofNode, e.ID); len(ofNode) == 0 {
			delete(b.byNode, e.NodeID)
		}
	}
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

// fits reports whether a room is in the right pool, and large enough.
func (n Need) fits(r Room) bool {
	if n.NoRoom {
		return false
	}
	if n.Pool != "" && n.Pool != model.NodePoolAll && n.Pool != r.Pool {
		return false
	}
	return len(n.Amounts) == 0 || slices.ContainsFunc(n.Amounts, r.Free.holds)
}

// Unblock enqueues the evaluations that may be able to use the room, in which resources
// were freed. index is the state's index at which they became available; evaluations that were
// planned on that state or a newer one have seen them.
func (b *Blocked) Unblock(room Room, index uint64) {
	b.release(func() { b.saw(room.Class, index) },
		func(e *model.Evaluation) bool {
			return e.SnapshotIndex < index && b.needs[e.ID].fits(room) && helps(e, room.Class)
		})
}

// maxSeen is the number of node classes whose last gain of resources is remembered. Nodes whose
// properties change have ever new classes.
const maxSeen = 4096

// saw notes when a class has gained resources. If there are too many classes, it forgets them
// and remembers that any may have gained some: then evaluations are tried once too often, and
// none is missed.
func (b *Blocked) saw(class string, index uint64) {
	if _, known := b.seen[class]; !known && len(b.seen) >= maxSeen {
		for _, at := range b.seen {
			b.any = max(b.any, at)
		}
		clear(b.seen)
	}
	b.seen[class] = max(b.seen[class], index)
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

// UnblockNode enqueues the evaluations that wait for one node (system jobs). It is called for
// every alloc that ends, so it looks at no other evaluation.
func (b *Blocked) UnblockNode(nodeID string, index uint64) {
	if out := b.takeOfNode(nodeID, index); len(out) > 0 {
		b.enqueue(out...)
	}
}

func (b *Blocked) takeOfNode(nodeID string, index uint64) (out []*model.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.byNode[nodeID] {
		if e := b.evals[id]; e.SnapshotIndex < index && !b.needs[id].NoRoom {
			out = append(out, e)
		}
	}
	for _, e := range out {
		b.remove(e)
	}
	inOrder(out)
	return out
}

// UnblockAll enqueues all evaluations that wait for room and were planned on a state before
// index: the scheduler configuration or a quota has changed, or changes were lost.
func (b *Blocked) UnblockAll(index uint64) {
	b.release(func() { b.any = max(b.any, index) }, func(e *model.Evaluation) bool {
		return e.SnapshotIndex < index && !b.needs[e.ID].NoRoom
	})
}

// Untrack drops the blocked evaluation of a job that was stopped or changed at the
// index, because the job's next evaluation replaces it. An evaluation that was planned
// on the changed job is kept. It returns the id of what it drops, or "".
func (b *Blocked) Untrack(namespace, jobID string, index uint64) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := model.JobKey{Namespace: namespace, ID: jobID}
	if e := b.evals[b.byJob[key]]; e != nil && e.SnapshotIndex < index {
		b.stale.add(e)
		b.remove(e)
		return e.ID
	}
	return ""
}

// Forget drops an evaluation that is no longer blocked in state.
func (b *Blocked) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.evals[id]
	if e == nil {
		return
	}
	b.remove(e)
}

// Held returns all held evaluations.
func (b *Blocked) Held() []*model.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.evals))
}

// Known returns the ids of all held evaluations.
func (b *Blocked) Known() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.evals))
}

func (b *Blocked) take(which func(*model.Evaluation) bool) []*model.Evaluation {
	var out []*model.Evaluation
	for _, e := range b.evals {
		if which(e) {
			out = append(out, e)
			b.remove(e)
		}
	}
	inOrder(out)
	return out
}

// inOrder sorts evaluations as they are enqueued.
func inOrder(evals []*model.Evaluation) {
	slices.SortFunc(evals, func(x, y *model.Evaluation) int {
		return cmp.Or(-cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.CreateIndex, y.CreateIndex), cmp.Compare(x.ID, y.ID))
	})
}

// Superseded has a value when there are superseded evaluations that Cancelled has not returned yet.
func (b *Blocked) Superseded() <-chan struct{} { return b.stale.ripe }

// Cancelled returns and clears the list of superseded evaluations, which the caller
// must mark as canceled.
func (b *Blocked) Cancelled() []*model.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stale.take()
}

// Len returns the number of held evaluations.
func (b *Blocked) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.evals)
}
