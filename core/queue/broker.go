// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Config configures retries of a Broker.
type Config struct {
	NackTimeout   time.Duration // a worker that holds an eval longer loses it; 60 s by default
	RetryDelay    time.Duration // delay before the first retry; 1 s by default, doubled each time up to 1 min
	DeliveryLimit int           // deliveries before the eval moves to the "failed" lane; 3 by default
	Lanes         Lanes         // nil means one lane per namespace, all alike
	Clock         Clock
	Logger        hclog.Logger // may be nil
}

// Broker delivers pending evaluations to workers. Namespaces share the workers by their
// weights; see Lanes. At most one evaluation of a job is being processed at a time; of those
// that wait behind it, all but the newest are superseded (see Cancelled). It is safe for
// concurrent use.
type Broker struct {
	cfg Config

	mu      sync.Mutex
	enabled bool
	paused  bool
	strict  bool                      // priorities count across namespaces
	clock   float64                   // pass of the tenant that was served last
	tenants map[string]*tenant        // by namespace
	active  turnHeap[*tenant]         // those that can deliver
	holds   map[string]*entry         // jobs of ordered lanes that wait for room, by eval id
	failed  entryHeap                 // above the delivery limit
	known   map[string]*entry         // by eval id
	busy    map[model.JobKey]string   // job -> eval that is ready or being processed
	waiting map[model.JobKey][]*entry // evals behind a busy job, oldest first
	delayed delayHeap                 // until a time: WaitUntil, retries and nack timeouts
	stale   superseded
	wake    chan struct{} // closed when something becomes ready
	timer   chan struct{} // wakes the timer loop
	seq     uint64
}

type entry struct {
	eval       *model.Evaluation
	seq        uint64
	token      string // set while a worker has it
	deliveries int
	due        time.Time // for delayed entries: when to act
	lane       *lane
	submitted  uint64 // see Seat.Order
	order      uint64 // submitted in the line of a lane; else 0, and first come is first served
	isNew      bool   // see Seat
	line       bool   // it is in the line of its lane, or was taken from there
	readyAt    time.Time
	in         *entryHeap // the heap in which it is ready, or nil
	index      int        // position in that heap or in delayed, -1 in neither
	again      *model.Evaluation
}

// NewBroker returns a broker that delivers nothing until SetEnabled and Run.
func NewBroker(cfg Config) *Broker {
	if cfg.NackTimeout == 0 {
		cfg.NackTimeout = time.Minute
	}
	if cfg.RetryDelay == 0 {
		cfg.RetryDelay = time.Second
	}
	if cfg.DeliveryLimit == 0 {
		cfg.DeliveryLimit = 3
	}
	if cfg.Clock == nil {
		cfg.Clock = WallClock{}
	}
	if cfg.Lanes == nil {
		cfg.Lanes = oneLane{}
	}
	b := &Broker{cfg: cfg, timer: make(chan struct{}, 1), stale: newSuperseded()}
	b.reset()
	return b
}

func (b *Broker) reset() {
	b.known, b.tenants, b.holds = map[string]*entry{}, map[string]*tenant{}, map[string]*entry{}
	b.active, b.failed, b.clock = nil, nil, 0
	b.busy, b.waiting = map[model.JobKey]string{}, map[model.JobKey][]*entry{}
	b.delayed, b.stale.evals, b.paused = nil, nil, false
	b.wakeAll()
}

// wakeAll lets everybody who waits for an evaluation look again.
func (b *Broker) wakeAll() {
	if b.wake != nil {
		close(b.wake)
	}
	b.wake = make(chan struct{})
}

// SetEnabled starts or stops handing out: only the leader's broker is enabled. Disabling
// forgets everything; workers can no longer acknowledge the evaluations that they have.
func (b *Broker) SetEnabled(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enabled = on
	if !on {
		b.reset()
		return
	}
	b.strict = b.cfg.Lanes.Strict()
}

// Enqueue adds a pending evaluation (or a blocked one that should be retried). A known
// evaluation is not added again, but replaced by the newer value.
func (b *Broker) Enqueue(evals ...*model.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.enabled {
		return
	}
	for _, e := range evals {
		b.enqueue(e)
	}
}

func (b *Broker) enqueue(e *model.Evaluation) {
	if old := b.known[e.ID]; old != nil {
		switch {
		case old.token == "":
			old.eval = e
		case e.ModifyIndex > old.eval.ModifyIndex:
			old.again = e // changed while a worker has it: process it again after the ack
		}
		return
	}
	b.unhold(e.ID)
	b.seq++
	seat := b.cfg.Lanes.Seat(e)
	en := &entry{eval: e, seq: b.seq, index: -1, lane: b.lane(seat.Lane), submitted: seat.Order, isNew: seat.New}
	b.known[e.ID] = en
	en.lane.depth++
	if !e.WaitUntil.IsZero() && e.WaitUntil.After(b.cfg.Clock.Now()) {
		b.delay(en, e.WaitUntil)
		return
	}
	b.makeReady(en)
}

// makeReady makes an entry available to workers unless its job is busy.
func (b *Broker) makeReady(en *entry) {
	key := model.JobKey{Namespace: en.eval.Namespace, ID: en.eval.JobID}
	if holder := b.busy[key]; holder != "" && holder != en.eval.ID {
		b.waiting[key] = append(b.waiting[key], en)
		return
	}
	b.busy[key] = en.eval.ID
	if en.deliveries >= b.cfg.DeliveryLimit {
		heap.Push(&b.failed, en)
	} else {
		b.push(en)
	}
	b.wakeAll()
}

// Dequeue waits for an evaluation and takes it: of the lane whose turn it is the one of
// the highest priority, and of those the oldest. Ack and Nack need the token.
func (b *Broker) Dequeue(ctx context.Context) (*model.Evaluation, string, error) {
	return b.dequeue(ctx, b.pop)
}

// DequeueFailed is Dequeue for evaluations that reached the delivery limit.
func (b *Broker) DequeueFailed(ctx context.Context) (*model.Evaluation, string, error) {
	return b.dequeue(ctx, func() *entry {
		if len(b.failed) == 0 {
			return nil
		}
		return heap.Pop(&b.failed).(*entry)
	})
}

func (b *Broker) dequeue(ctx context.Context, pop func() *entry) (*model.Evaluation, string, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		b.mu.Lock()
		if e, token := b.next(pop); e != nil {
			b.mu.Unlock()
			return e, token, nil
		}
		wake := b.wake
		b.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-wake:
		}
	}
}

func (b *Broker) next(pop func() *entry) (*model.Evaluation, string) {
	if b.paused {
		return nil, ""
	}
	en := pop()
	if en == nil {
		return nil, ""
	}
	en.deliveries++
	en.lane.unacked++
	b.seq++
	en.token = en.eval.ID + "/" + strconv.FormatUint(b.seq, 10)
	b.delay(en, b.cfg.Clock.Now().Add(b.cfg.NackTimeout))
	return en.eval, en.token
}

// held returns the entry for which token is valid.
func (b *Broker) held(id, token string) (*entry, error) {
	en := b.known[id]
	if en == nil || en.token != token || token == "" {
		return nil, errdefs.FailedPreconditionf("evaluation %s is no longer held by this worker: drop its result", id)
	}
	return en, nil
}

// Extend restarts the nack timeout of an evaluation that is still being processed.
func (b *Broker) Extend(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	en, err := b.held(id, token)
	if err == nil {
		b.undelay(en)
		b.delay(en, b.cfg.Clock.Now().Add(b.cfg.NackTimeout))
	}
	return err
}

// Ack completes the evaluation; the next one of its job becomes ready.
func (b *Broker) Ack(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	en, err := b.held(id, token)
	if err != nil {
		return err
	}
	b.undelay(en)
	b.untake(en)
	b.unknow(en)
	b.release(en)
	if en.again != nil && !en.again.TerminalStatus() {
		b.enqueue(en.again)
	}
	return nil
}

// unknow removes an entry from those that the broker knows.
func (b *Broker) unknow(en *entry) {
	delete(b.known, en.eval.ID)
	en.lane.depth--
}

// release frees the entry's job and makes the newest waiting evaluation ready.
func (b *Broker) release(en *entry) {
	key := model.JobKey{Namespace: en.eval.Namespace, ID: en.eval.JobID}
	delete(b.busy, key)
	w := b.waiting[key]
	delete(b.waiting, key)
	if len(w) == 0 {
		return
	}
	slices.SortStableFunc(w, func(x, y *entry) int { return cmp.Compare(x.eval.CreateIndex, y.eval.CreateIndex) })
	last := w[len(w)-1]
	for _, old := range w[:len(w)-1] {
		b.unknow(old)
		b.stale.add(old.eval)
	}
	b.makeReady(last)
}

// Superseded has a value when there are superseded evaluations that Cancelled has not returned
// yet.
func (b *Broker) Superseded() <-chan struct{} { return b.stale.ripe }

// Cancelled returns and clears the list of superseded evaluations, which the caller
// must mark as canceled.
func (b *Broker) Cancelled() []*model.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stale.take()
}

// CancelLater returns evaluations that could not be marked to the list. Superseded does not
// say so: the caller tries again after a while.
func (b *Broker) CancelLater(evals []*model.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.enabled {
		b.stale.evals = append(b.stale.evals, evals...)
	}
}

// Nack reports that a worker failed; the evaluation is retried after a delay.
func (b *Broker) Nack(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	en, err := b.held(id, token)
	if err == nil {
		b.undelay(en)
		b.retry(en)
	}
	return err
}

func (b *Broker) retry(en *entry) {
	b.untake(en)
	wait := b.cfg.RetryDelay << min(en.deliveries-1, 6)
	b.delay(en, b.cfg.Clock.Now().Add(min(wait, time.Minute)))
}

// Stats are the sizes of a broker's queues.
type Stats struct{ Ready, Unacked, Waiting, Delayed int }

// Stats returns the current sizes.
func (b *Broker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s Stats
	s.Ready = len(b.failed)
	for _, t := range b.tenants {
		for _, l := range t.lanes {
			s.Ready += len(l.ready) + len(l.line)
		}
	}
	for _, w := range b.waiting {
		s.Waiting += len(w)
	}
	for _, en := range b.delayed {
		if en.token != "" {
			s.Unacked++
		} else {
			s.Delayed++
		}
	}
	return s
}
