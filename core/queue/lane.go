// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// LaneID names a lane: evaluations of the jobs of a namespace in a node pool.
type LaneID struct{ Namespace, NodePool string }

// Seat is where an evaluation belongs.
type Seat struct {
	Lane LaneID
	// Order is when its job was submitted, an index of the state.
	Order uint64
	// New says that nothing of the job is placed. Jobs of an ordered lane wait for those
	// before them until then.
	New bool
}

// Lanes says where evaluations belong and which rules a lane has. It must not call the
// Broker.
type Lanes interface {
	Seat(*model.Evaluation) Seat
	Rules(LaneID) model.LaneRules
	// Strict reports whether the priorities of jobs count across namespaces.
	Strict() bool
}

// oneLane is a Lanes without node pools and rules.
type oneLane struct{}

func (oneLane) Seat(e *model.Evaluation) Seat {
	return Seat{Lane: LaneID{Namespace: e.Namespace}, Order: e.CreateIndex}
}
func (oneLane) Rules(LaneID) model.LaneRules { return model.LaneRules{Weight: 1, PoolWeight: 1} }
func (oneLane) Strict() bool                 { return false }

// tenant is a namespace with its lanes. Tenants share the workers by their weights, and
// the lanes of a tenant share what it gets.
type tenant struct {
	share
	weight float64
	clock  float64 // pass of the lane that was served last
	lanes  map[string]*lane
	active turnHeap[*lane]
}

// lane holds the ready evaluations of a namespace in a node pool.
type lane struct {
	share
	id     LaneID
	tenant *tenant
	rules  model.LaneRules
	ready  entryHeap
	// line holds, in an ordered lane, the evaluations of jobs without any placed alloc. They
	// are processed one at a time, and none while a job before it waits for room.
	line    entryHeap
	blocked entryHeap // of an ordered lane: jobs that wait for room
	taken   int       // entries of line that are being processed

	depth   int // evaluations of any status that the broker knows
	coming  int // evaluations that are being written: see Admit
	unacked int
	served  uint64
	waited  time.Duration // how long the last evaluation was ready before it was taken
}

// head returns the entry that the lane delivers next, nil if it has none.
func (l *lane) head() *entry {
	var first *entry
	if len(l.ready) > 0 {
		first = l.ready[0]
	}
	if len(l.line) > 0 && !l.held() && (first == nil || before(l.line[0], first)) {
		first = l.line[0]
	}
	return first
}

// held reports whether the first job of the line must wait for another one.
func (l *lane) held() bool {
	if !l.rules.Ordered {
		return false
	}
	if l.taken > 0 {
		return true
	}
	if len(l.blocked) == 0 {
		return false
	}
	x, y := l.blocked[0], l.line[0]
	return x.eval.JobID != y.eval.JobID && before(x, y)
}

// maxIdleLanes is the number of lanes from which those without evaluations are dropped. A
// lane remembers how much of the workers' time it has used, so that a tenant does not get more
// by adding its evaluations one by one.
const maxIdleLanes = 4096

// lane returns a lane, which is created if there is none.
func (b *Broker) lane(id LaneID) *lane {
	t := b.tenants[id.Namespace]
	if t == nil {
		b.sweep()
		t = &tenant{share: share{name: id.Namespace, pos: -1}, weight: 1, lanes: map[string]*lane{}}
		b.tenants[id.Namespace] = t
	}
	l := t.lanes[id.NodePool]
	if l == nil {
		l = &lane{share: share{name: id.NodePool, pos: -1}, id: id, tenant: t}
		t.lanes[id.NodePool] = l
		b.rule(l)
	}
	return l
}

// sweep drops lanes without evaluations if there are very many.
func (b *Broker) sweep() {
	if len(b.tenants) < maxIdleLanes {
		return
	}
	for name, t := range b.tenants {
		for pool, l := range t.lanes {
			if l.depth+l.coming == 0 && len(l.blocked) == 0 {
				delete(t.lanes, pool)
			}
		}
		if len(t.lanes) == 0 {
			delete(b.tenants, name)
		}
	}
}

func (b *Broker) rule(l *lane) {
	l.rules = b.cfg.Lanes.Rules(l.id)
	l.rules.Weight, l.rules.PoolWeight = max(l.rules.Weight, 1), max(l.rules.PoolWeight, 1)
	l.tenant.weight = float64(l.rules.Weight)
}

// Reconfigure reads the rules of all lanes again.
func (b *Broker) Reconfigure() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strict = b.cfg.Lanes.Strict()
	for _, t := range b.tenants {
		for _, l := range t.lanes {
			b.rule(l)
			b.settle(l)
		}
	}
	b.wakeAll()
}

// settle puts a lane, and its tenant, where they belong after a change of what the lane
// can deliver.
func (b *Broker) settle(l *lane) {
	t := l.tenant
	first := l.head()
	if first != nil && b.strict {
		l.top = first.eval.Priority
	} else {
		l.top = 0
	}
	place(&t.active, l, first != nil, t.clock)
	if len(t.active) > 0 {
		t.top = t.active[0].top
	}
	place(&b.active, t, len(t.active) > 0, b.clock)
}

// place adds x to a heap, moves it or removes it. A tenant or lane that is added again does
// not catch up on the turns that it skipped while it had nothing to deliver.
func place[T interface{ turn() *share }](h *turnHeap[T], x T, active bool, clock float64) {
	s := x.turn()
	switch {
	case !active && s.pos >= 0:
		heap.Remove(h, s.pos)
	case active && s.pos < 0:
		s.pass = max(s.pass, clock)
		heap.Push(h, x)
	case active:
		heap.Fix(h, s.pos)
	}
}

// push makes an entry available in its lane.
func (b *Broker) push(en *entry) {
	l := en.lane
	en.readyAt, en.order = time.Now(), 0
	if en.line = l.rules.Ordered && en.isNew; en.line {
		en.order = en.submitted
		heap.Push(&l.line, en)
	} else {
		heap.Push(&l.ready, en)
	}
	b.settle(l)
}

// pop takes the entry whose turn it is, nil if no lane can deliver any.
func (b *Broker) pop() *entry {
	if len(b.active) == 0 {
		return nil
	}
	t := b.active[0]
	l := t.active[0]
	en := l.head()
	heap.Remove(en.in, en.index)
	if en.line {
		l.taken++
	}
	l.served++
	l.waited = time.Since(en.readyAt)
	b.clock, t.clock = max(b.clock, t.pass), max(t.clock, l.pass)
	t.pass += 1 / t.weight
	l.pass += 1 / float64(l.rules.PoolWeight)
	b.settle(l)
	return en
}

// untake ends the processing of an entry that a worker has.
func (b *Broker) untake(en *entry) {
	en.token = ""
	en.lane.unacked--
	if en.line {
		en.line = false
		en.lane.taken--
		b.settle(en.lane)
		b.wakeAll()
	}
}

// Hold tells an ordered lane that a job waits for room: jobs after it wait as well until
// Unhold. Other lanes ignore it.
func (b *Broker) Hold(e *model.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.enabled || b.holds[e.ID] != nil {
		return
	}
	seat := b.cfg.Lanes.Seat(e)
	l := b.lane(seat.Lane)
	if !l.rules.Ordered {
		return
	}
	b.seq++
	en := &entry{eval: e, lane: l, order: seat.Order, seq: b.seq, index: -1}
	b.holds[e.ID] = en
	heap.Push(&l.blocked, en)
	b.settle(l)
}

// Unhold ends what Hold began.
func (b *Broker) Unhold(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unhold(id)
}

func (b *Broker) unhold(id string) {
	en := b.holds[id]
	if en == nil {
		return
	}
	delete(b.holds, id)
	heap.Remove(en.in, en.index)
	b.settle(en.lane)
	b.wakeAll()
}

// LaneStats describes a lane.
type LaneStats struct {
	LaneID
	model.LaneRules
	Ready, Unacked, Waiting, Blocked int
	Served                           uint64        // evaluations that workers took since this server leads
	Waited                           time.Duration // how long the last one was ready before it was taken
}

// Lanes returns the lanes that have evaluations, or had some since this server leads,
// ordered by namespace and node pool.
func (b *Broker) Lanes() []LaneStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []LaneStats
	for _, t := range b.tenants {
		for _, l := range t.lanes {
			ready := len(l.ready) + len(l.line)
			out = append(out, LaneStats{LaneID: l.id, LaneRules: l.rules, Ready: ready, Unacked: l.unacked, Waiting: l.depth - ready - l.unacked, Blocked: len(l.blocked), Served: l.served, Waited: l.waited})
		}
	}
	slices.SortFunc(out, func(x, y LaneStats) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.NodePool, y.NodePool))
	})
	return out
}

// Admit asks whether one more evaluation may come to a lane, before it is written to the
// state: what is written is never refused. The caller calls release when its write has
// ended. ResourceExhausted: the lane is full; errdefs.RetryAfter says when to try again.
func (b *Broker) Admit(id LaneID) (release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.enabled {
		return func() {}, nil
	}
	l := b.lane(id)
	if limit := l.rules.MaxDepth; limit > 0 && l.depth+l.coming >= limit {
		return nil, errdefs.WithRetryAfter(errdefs.WithReason(errdefs.ResourceExhaustedf("%d evaluations of namespace %q wait in node pool %q, and no more may wait (max_depth); nothing was written, try again later", l.depth+l.coming, id.Namespace, id.NodePool), ReasonQueueFull),
			min(max(l.waited/10, time.Second), time.Minute))
	}
	l.coming++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		l.coming--
	}, nil
}

// ReasonQueueFull is the reason code (errdefs.ReasonOf) of an error of Admit.
const ReasonQueueFull = "queue_full"
