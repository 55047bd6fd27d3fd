// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package update is the buffer between the allocs of a node and the servers. It owns
// which updates are waiting, which are urgent, when they are sent, and what the
// servers already know. A slow or absent server never blocks a runner. It does not
// know how to send. Only core/agent and packages below it may import it.
package update

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// Tick is the interval of the sender. An urgent update is sent at the next tick; after an
// idle tick it is sent after Lead, so that others can join it. An update that is not urgent
// is sent once it has waited for Normal, because most of them are soon followed by an urgent
// one of the same alloc and then need no report of their own. Servers assume that a new
// alloc is pending, so the node reports that only if it lasts for Quiet.
const (
	Tick   = 200 * time.Millisecond
	Lead   = 10 * time.Millisecond
	Normal = 5 * Tick
	Quiet  = 10 * time.Second
)

// MaxThrottle is the longest pause between two batches for which a server may ask.
const MaxThrottle = 5 * time.Second

// maxPause is the maximum number of ticks between two attempts while sending fails.
const maxPause = 25

// maxBatch is the maximum number of reports in one batch.
const maxBatch = 4096

// sendTimeout ends a send that the server does not answer.
const sendTimeout = 30 * time.Second

// Send sends a batch to a server. The reports share data with others and must not be
// changed.
type Send func(ctx context.Context, batch []*model.AllocReport) (rpc.UpdateAnswer, error)

// Buffer holds the newest state of each alloc that the servers do not know yet. It
// sends nothing before the servers have reported what they know (Told).
type Buffer struct {
	send   Send
	logger hclog.Logger
	wake   chan struct{} // of size 1
	hurry  chan struct{} // capacity 1: an urgent update was added
	again  chan struct{} // capacity 1: a retry may succeed now
	last   time.Time     // time of the last send; used by Run only
	// notBefore is the earliest time of the next send, which a loaded server has set; used
	// by Run only.
	notBefore time.Time

	mu      sync.Mutex
	open    bool // the servers have reported what they know
	waiting map[string]entry
	sending map[string]entry // the batch that is under way
	acked   map[string]*model.Allocation
	told    map[string]uint64 // digests of the servers' state of allocs that are not in acked
	most    int               // current maximum of reports per batch, 1 to maxBatch
}

type entry struct {
	alloc  *model.Allocation
	urgent bool
	// quiet means that the update contains only what servers assume anyway.
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

// Put adds the newest state of an alloc, which is shared and never changed. It never
// blocks. What the servers already know is dropped. urgent marks it as urgent
// regardless of its changes (a reconnect).
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
		delete(b.waiting, a.ID) // an update in between was undone
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

// Told records what the servers know about allocs, by id: see
// model.Allocation.ReportDigest. full means that they know no other allocs. Allocs whose
// state they know are not sent; others are sent at once.
func (b *Buffer) Told(digests map[string]uint64, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if full {
		clear(b.told)
	}
	for id, d := range digests {
		if _, ok := b.sending[id]; ok {
			continue // the servers correctly know less, which is temporary
		}
		known := b.acked[id]
		e, waits := b.waiting[id]
		switch {
		case waits && e.alloc.ReportDigest() == d:
			delete(b.waiting, id)
			b.acknowledge(e.alloc)
		case known != nil && known.ReportDigest() != d:
			delete(b.acked, id)
			b.told[id] = d
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

// Retry means that sending may succeed now: the node has registered, or is ready
// again.
func (b *Buffer) Retry() { signal(b.again) }

// Forget removes an alloc that the servers have removed.
func (b *Buffer) Forget(allocID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, allocID)
	delete(b.sending, allocID)
	delete(b.acked, allocID)
	delete(b.told, allocID)
}

// EndAcknowledged reports whether the servers know the final state of the alloc.
func (b *Buffer) EndAcknowledged(allocID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, waits := b.waiting[allocID]
	_, sending := b.sending[allocID]
	known := b.acked[allocID]
	return !waits && !sending && known != nil && known.ClientTerminalStatus()
}

// isUrgent reports whether a server waits for the change: a client status or the
// health for a deployment. Servers assume that a new alloc is pending.
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

// isQuiet reports whether a waits for its first start, which need not be reported yet.
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
