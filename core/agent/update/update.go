// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package update is the buffer between the allocs of a node and the servers: it
// owns which updates wait, which are urgent, when they are sent and which are
// already known to the servers. A slow or absent server never blocks a runner.
// It does not know how to send. Only core/agent and packages below it may
// import it.
package update

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
)

// Tick is how often the sender looks; NormalTicks ticks pass before what is not
// urgent is sent. An urgent update after a pause of a tick leaves after Lead, in
// which others that come with it join: it need not wait for a rate that nobody
// has reached.
const (
	Tick        = 200 * time.Millisecond
	NormalTicks = 5
	Lead        = 10 * time.Millisecond
)

// maxPause is the most ticks that pass between two tries while sending fails.
const maxPause = 25

// sendTimeout ends a send that the server does not answer.
const sendTimeout = 30 * time.Second

// Send hands a batch to a server. The allocs carry the client's fields only and
// are shared: the callee must not change them.
type Send func(ctx context.Context, batch []*model.Allocation) error

// Buffer holds the newest update of each alloc that the servers do not know yet.
type Buffer struct {
	send   Send
	logger hclog.Logger
	wake   chan struct{} // of size 1
	hurry  chan struct{} // of size 1: something urgent was put
	last   time.Time     // of the last send; used by Run only

	mu      sync.Mutex
	waiting map[string]entry
	sending map[string]entry // the batch that is under way
	acked   map[string]*model.Allocation
}

type entry struct {
	alloc  *model.Allocation
	urgent bool
}

// New returns a buffer; Run sends what is put into it.
func New(send Send, logger hclog.Logger) *Buffer {
	return &Buffer{
		send: send, logger: logger, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		waiting: map[string]entry{}, acked: map[string]*model.Allocation{},
	}
}

// Put takes the newest state of an alloc. It never blocks. What the servers
// have acknowledged already is dropped. urgent marks it as urgent whatever
// changed in it (a reconnect).
func (b *Buffer) Put(a *model.Allocation, urgent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.acked[a.ID]
	_, sending := b.sending[a.ID]
	if !urgent && !sending && known != nil && same(known, a) {
		delete(b.waiting, a.ID) // an update in between has been undone
		return
	}
	old := b.waiting[a.ID]
	e := entry{alloc: a, urgent: urgent || old.urgent || isUrgent(known, a)}
	b.waiting[a.ID] = e
	signal(b.wake)
	if e.urgent {
		signal(b.hurry)
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Forget drops all knowledge of an alloc that the servers no longer have.
func (b *Buffer) Forget(allocID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, allocID)
	delete(b.acked, allocID)
}

// Acknowledged reports whether the servers know the alloc's newest state.
func (b *Buffer) Acknowledged(allocID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.waiting[allocID]
	return !waits && b.acked[allocID] != nil
}

// Run sends until ctx ends; what still waits then is tried once more, briefly.
// While nothing waits, no timer runs.
func (b *Buffer) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
			b.drain(ctx)
		}
		if ctx.Err() != nil {
			b.flush(ctx)
			return
		}
	}
}

// drain ticks until nothing waits.
func (b *Buffer) drain(ctx context.Context) {
	ticker := time.NewTicker(Tick)
	defer ticker.Stop()
	tick, pause, failures := 0, 0, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			tick++
			if pause > 0 {
				pause--
				continue
			}
		case <-b.hurry:
			if time.Since(b.last) < Tick || failures > 0 {
				continue // the next tick has it
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(Lead):
			}
			ticker.Reset(Tick)
		}
		batch, done := b.take(tick%NormalTicks == 0 || failures > 0)
		if done {
			return
		}
		if len(batch) == 0 {
			continue
		}
		if err := b.deliver(ctx, batch); err != nil {
			failures++
			pause = min(1<<min(failures, 5), maxPause)
			if ctx.Err() == nil {
				b.logger.Warn("alloc updates could not be sent; they are kept and sent again", "allocs", len(batch), "error", err)
			}
			continue
		}
		failures = 0
	}
}

// flush gives what waits a last chance when the agent ends.
func (b *Buffer) flush(ctx context.Context) {
	batch, done := b.take(true)
	if done {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := b.deliver(ctx, batch); err != nil {
		b.logger.Warn("alloc updates could not be sent before the agent ended; they follow after its start", "allocs", len(batch), "error", err)
	}
}

// take empties the buffer if all is set or something urgent waits. done says
// that nothing waits at all.
func (b *Buffer) take(all bool) (batch map[string]entry, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil, true
	}
	for _, e := range b.waiting {
		all = all || e.urgent
	}
	if !all {
		return nil, false
	}
	batch, b.waiting = b.waiting, map[string]entry{}
	b.sending = batch
	return batch, false
}

// deliver sends a batch. On failure it goes back where nothing newer waits.
func (b *Buffer) deliver(ctx context.Context, batch map[string]entry) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	allocs := make([]*model.Allocation, 0, len(batch))
	for _, e := range batch {
		allocs = append(allocs, e.alloc)
	}
	err := b.send(ctx, allocs)
	b.last = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = nil
	for id, e := range batch {
		newer, ok := b.waiting[id]
		switch {
		case err == nil:
			b.acked[id] = e.alloc
		case ok:
			newer.urgent = newer.urgent || e.urgent
			b.waiting[id] = newer
		default:
			b.waiting[id] = e
		}
	}
	return err
}

// isUrgent reports whether somebody waits for the change: a client status or the
// health for a deployment. That an alloc is pending is what servers think anyway.
func isUrgent(known, a *model.Allocation) bool {
	if known == nil {
		return a.ClientStatus != model.AllocClientStatusPending || health(a) != 0
	}
	return known.ClientStatus != a.ClientStatus || health(known) != health(a) ||
		!reflect.DeepEqual(known.NetworkStatus, a.NetworkStatus)
}

func health(a *model.Allocation) int {
	switch {
	case a.DeploymentStatus.IsHealthy():
		return 1
	case a.DeploymentStatus.IsUnhealthy():
		return -1
	}
	return 0
}

// same reports whether two updates say the same, whenever they were made.
func same(a, b *model.Allocation) bool {
	x, y := *a, *b
	x.ModifyTime, y.ModifyTime = 0, 0
	return reflect.DeepEqual(&x, &y)
}
