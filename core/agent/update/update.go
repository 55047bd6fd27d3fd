// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package update is the buffer between the allocs of a node and the servers: it
// owns which updates wait, which are urgent, when they are sent and what the
// servers know already. A slow or absent server never blocks a runner. It does
// not know how to send. Only core/agent and packages below it may import it.
package update

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
)

// Tick is how often the sender looks; NormalTicks ticks pass before what is not
// urgent is sent. An urgent update after a pause of a tick leaves after Lead, in
// which others that come with it join: it need not wait for a rate that nobody
// has reached. That an alloc is pending and waits for its start is what servers
// take for granted; they are told if it lasts for Quiet.
const (
	Tick        = 200 * time.Millisecond
	NormalTicks = 5
	Lead        = 10 * time.Millisecond
	Quiet       = 10 * time.Second
)

// maxPause is the most ticks that pass between two tries while sending fails.
const maxPause = 25

// maxBatch is the most reports that are sent at once.
const maxBatch = 4096

// sendTimeout ends a send that the server does not answer.
const sendTimeout = 30 * time.Second

// Send hands a batch to a server. The reports share what they hold with others:
// the callee must not change it. whole are allocs whose report was not taken and
// that the server wants whole.
type Send func(ctx context.Context, batch []*model.AllocReport) (whole []string, err error)

// Buffer holds the newest state of each alloc that the servers do not know yet.
// It sends nothing before the servers have told what they know (Told).
type Buffer struct {
	send   Send
	logger hclog.Logger
	wake   chan struct{} // of size 1
	hurry  chan struct{} // of size 1: something urgent was put
	again  chan struct{} // of size 1: what failed may succeed now
	last   time.Time     // of the last send; used by Run only

	mu      sync.Mutex
	open    bool // servers have told what they know
	waiting map[string]entry
	sending map[string]entry // the batch that is under way
	acked   map[string]*model.Allocation
	told    map[string]uint64 // digests of what servers know, of allocs that are not in acked
	most    int               // reports that one batch may have now, 1 to maxBatch
}

type entry struct {
	alloc  *model.Allocation
	urgent bool
	// quiet says that it tells nothing that servers do not take for granted.
	quiet bool
	since time.Time
}

// New returns a buffer; Run sends what is put into it.
func New(send Send, logger hclog.Logger) *Buffer {
	return &Buffer{
		send: send, logger: logger,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), again: make(chan struct{}, 1),
		waiting: map[string]entry{}, acked: map[string]*model.Allocation{}, told: map[string]uint64{}, most: maxBatch,
	}
}

// Put takes the newest state of an alloc, which is shared and never changed. It
// never blocks. What the servers know already is dropped. urgent marks it as
// urgent whatever changed in it (a reconnect).
func (b *Buffer) Put(a *model.Allocation, urgent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.acked[a.ID]
	if d, ok := b.told[a.ID]; ok && known == nil && d == a.ReportDigest() {
		b.acknowledge(a)
		known = a
	}
	_, sending := b.sending[a.ID]
	if !sending && a.ReportSince(known) == nil {
		delete(b.waiting, a.ID) // an update in between has been undone
		return
	}
	old, waits := b.waiting[a.ID]
	e := entry{alloc: a, urgent: urgent || old.urgent || isUrgent(known, a), quiet: !urgent && !old.urgent && !sending && isQuiet(known, a), since: time.Now()}
	if waits {
		e.since = old.since
	}
	b.wait(e)
}

// wait has an update wait to be sent.
func (b *Buffer) wait(e entry) {
	b.waiting[e.alloc.ID] = e
	signal(b.wake)
	if e.urgent {
		signal(b.hurry)
	}
}

// acknowledge notes that the servers know a.
func (b *Buffer) acknowledge(a *model.Allocation) {
	b.acked[a.ID] = a
	delete(b.told, a.ID)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Told takes what the servers know of allocs, by id: see model.Allocation.ReportDigest.
// full says that they know of no other allocs. What they know need not be sent;
// what they do not, or no longer, is sent at once.
func (b *Buffer) Told(digests map[string]uint64, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if full {
		clear(b.told)
	}
	for id, d := range digests {
		if _, ok := b.sending[id]; ok {
			continue // that they know less is right, and will not last
		}
		known := b.acked[id]
		e, waits := b.waiting[id]
		switch {
		case waits && e.alloc.ReportDigest() == d:
			delete(b.waiting, id)
			b.acknowledge(e.alloc)
		case known != nil && known.ReportDigest() != d:
			delete(b.acked, id)
			if !waits {
				e = entry{alloc: known, since: time.Now()}
			}
			e.urgent, e.quiet = true, false
			b.wait(e)
		case known == nil:
			b.told[id] = d
		}
	}
	b.open = true
	signal(b.wake)
}

// Retry says that what failed may succeed now: the node has registered, or is
// ready again.
func (b *Buffer) Retry() { signal(b.again) }

// Forget drops all knowledge of an alloc that the servers no longer have.
func (b *Buffer) Forget(allocID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, allocID)
	delete(b.sending, allocID)
	delete(b.acked, allocID)
	delete(b.told, allocID)
}

// EndAcknowledged reports whether the servers know that the alloc has ended, and
// everything else about it.
func (b *Buffer) EndAcknowledged(allocID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.waiting[allocID]
	_, sending := b.sending[allocID]
	known := b.acked[allocID]
	return !waits && !sending && known != nil && known.ClientTerminalStatus()
}

// isUrgent reports whether somebody waits for the change: a client status or the
// health for a deployment. That an alloc is pending is what servers think anyway.
func isUrgent(known, a *model.Allocation) bool {
	if known == nil {
		return a.ClientStatus != model.AllocClientStatusPending || health(a) != 0
	}
	return known.ClientStatus != a.ClientStatus || health(known) != health(a)
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

// isQuiet reports whether a is an alloc that waits for its first start, of which
// nothing is to be told yet.
func isQuiet(known, a *model.Allocation) bool {
	if known != nil || a.ClientStatus != model.AllocClientStatusPending || health(a) != 0 {
		return false
	}
	for _, s := range a.TaskStates {
		for _, e := range s.Events {
			if e.Type != model.TaskReceived && e.Type != model.TaskSetup {
				return false
			}
		}
	}
	return true
}
