// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
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
	Clock         Clock
	Logger        hclog.Logger // may be nil
}

// TypeFailed is the lane of evaluations that reached the delivery limit.
const TypeFailed = "_failed"

// Broker delivers pending evaluations to workers. At most one evaluation of a job is
// being processed at a time; of those that wait behind it, all but the newest are
// superseded (see Cancelled). It is safe for concurrent use.
type Broker struct {
	cfg Config

	mu      sync.Mutex
	enabled bool
	paused  bool
	ready   map[string]*lane          // by type
	known   map[string]*entry         // by eval id
	busy    map[model.JobKey]string   // job -> eval that is ready or being processed
	waiting map[model.JobKey][]*entry // evals behind a busy job, oldest first
	delayed delayHeap                 // until a time: WaitUntil, retries and nack timeouts
	stale   []*model.Evaluation       // superseded ones
	wake    chan struct{}             // closed when something becomes ready
	timer   chan struct{}             // wakes the timer loop
	seq     uint64
}

type entry struct {
	eval       *model.Evaluation
	seq        uint64
	token      string // set while a worker has it
	deliveries int
	due        time.Time // for delayed entries: when to act
	lane       *lane     // the lane in which it is ready, or nil
	index      int       // position in lane or delayed, -1 in neither
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
	b := &Broker{cfg: cfg, timer: make(chan struct{}, 1)}
	b.reset()
	return b
}

func (b *Broker) reset() {
	b.ready, b.known = map[string]*lane{}, map[string]*entry{}
	b.busy, b.waiting = map[model.JobKey]string{}, map[model.JobKey][]*entry{}
	b.delayed, b.stale, b.paused = nil, nil, false
	if b.wake != nil {
		close(b.wake)
	}
	b.wake = make(chan struct{})
}

// SetEnabled starts or stops handing out: only the leader's broker is enabled.
// Disabling forgets everything, and what workers still hold is not acknowledged.
func (b *Broker) SetEnabled(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enabled = on
	if !on {
		b.reset()
	}
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
			old.again = e // changed while a worker has it: process again after the ack
		}
		return
	}
	b.seq++
	en := &entry{eval: e, seq: b.seq, index: -1}
	b.known[e.ID] = en
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
	t := en.eval.Type
	if en.deliveries >= b.cfg.DeliveryLimit {
		t = TypeFailed
	}
	l := b.ready[t]
	if l == nil {
		l = &lane{}
		b.ready[t] = l
	}
	heap.Push(l, en)
	close(b.wake)
	b.wake = make(chan struct{})
}

// Dequeue waits for an evaluation of one of the types: highest priority first, then
// oldest first. Ack and Nack need the token.
func (b *Broker) Dequeue(ctx context.Context, types ...string) (*model.Evaluation, string, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		b.mu.Lock()
		if e, token := b.next(types); e != nil {
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

func (b *Broker) next(types []string) (*model.Evaluation, string) {
	if b.paused {
		return nil, ""
	}
	var best *lane
	for _, t := range types {
		if l := b.ready[t]; l != nil && l.Len() > 0 && (best == nil || before((*l)[0], (*best)[0])) {
			best = l
		}
	}
	if best == nil {
		return nil, ""
	}
	en := heap.Pop(best).(*entry)
	en.deliveries++
	b.seq++
	en.token = en.eval.ID + "/" + strconv.FormatUint(b.seq, 10)
	b.delay(en, b.cfg.Clock.Now().Add(b.cfg.NackTimeout))
	return en.eval, en.token
}

// held returns the entry for which token is valid.
func (b *Broker) held(id, token string) (*entry, error) {
	en := b.known[id]
	if en == nil || en.token != token || token == "" {
		return nil, errdefs.FailedPreconditionf("evaluation %s is not held by this worker any more: drop what was done for it", id)
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
	delete(b.known, id)
	b.release(en)
	if en.again != nil && !en.again.TerminalStatus() {
		b.enqueue(en.again)
	}
	return nil
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
	slices.SortStableFunc(w, func(x, y *entry) int { return int(x.eval.CreateIndex) - int(y.eval.CreateIndex) })
	last := w[len(w)-1]
	for _, old := range w[:len(w)-1] {
		b.undelay(old)
		delete(b.known, old.eval.ID)
		b.stale = append(b.stale, old.eval)
	}
	b.makeReady(last)
}

// Cancelled returns and clears the list of superseded evaluations, which the worker
// marks as canceled.
func (b *Broker) Cancelled() []*model.Evaluation {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.stale
	b.stale = nil
	return out
}

// CancelLater returns evaluations that could not be marked to the list.
func (b *Broker) CancelLater(evals []*model.Evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.enabled {
		b.stale = append(b.stale, evals...)
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
	en.token = ""
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
	for _, l := range b.ready {
		s.Ready += l.Len()
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
