// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// vouchTimeout limits the confirmation of a state by the leader.
const vouchTimeout = 5 * time.Second

// vouch returns the newest state and whether the leader confirms it: the leader has named a
// position, and the state contains that position in the same term.
func (d *Dispatcher) vouch(ctx context.Context) (view *state.View, confirmed bool) {
	// Confirm before reading, so that the state is not older than the confirmation.
	ctx, cancel := context.WithTimeout(ctx, vouchTimeout)
	defer cancel()
	point, err := d.shared.get(ctx, d.leader.Confirm)
	if err == nil {
		err = d.cfg.Store.Reach(ctx, point.Index)
	}
	view = d.cfg.Store.View()
	return view, err == nil && view.Cluster().TermID() == point.TermID
}

// abreast returns a state that is at least as new as the index and as everything that the
// node has seen from any server. If the leader says that there is no such state, or if no
// leader answers, abreast returns the newest state of this server.
func (d *Dispatcher) abreast(ctx context.Context, id rpc.Identity, index uint64) *state.View {
	view := d.cfg.Store.View()
	if view.Index() < max(id.Seen.Index, index) {
		view, _ = d.vouch(ctx)
	}
	return view
}

// confirmAgain repeats all assignments to nodes if the last push to them was not
// confirmed and the leader can confirm one now.
func (d *Dispatcher) confirmAgain(ctx context.Context) {
	var doubtful []*session
	d.mu.Lock()
	for _, s := range d.sessions {
		if s.doubtful.Load() {
			doubtful = append(doubtful, s)
		}
	}
	d.mu.Unlock()
	if len(doubtful) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.interval())
	defer cancel()
	if _, confirmed := d.vouch(ctx); !confirmed {
		return
	}
	for _, s := range doubtful {
		s.resync()
	}
}

// confirmations lets callers share the confirmations of the leader: each joins the next
// one that begins after its call.
type confirmations struct {
	mu      sync.Mutex
	next    *confirmation // has not begun; nil if no caller waits for one
	current *confirmation // the newest that has begun
}

type confirmation struct {
	done  chan struct{}
	point model.ClusterPoint
	err   error
}

// get returns the result of an ask that began after the call.
func (c *confirmations) get(ctx context.Context, ask func(context.Context) (model.ClusterPoint, error)) (model.ClusterPoint, error) {
	c.mu.Lock()
	mine := c.next
	if mine == nil {
		mine = &confirmation{done: make(chan struct{})}
		c.next = mine
		go c.run(context.WithoutCancel(ctx), mine, c.current, ask)
	}
	c.mu.Unlock()
	select {
	case <-mine.done:
		return mine.point, mine.err
	case <-ctx.Done():
		return model.ClusterPoint{}, errdefs.Unavailablef("the leader did not confirm the state in time: %w", ctx.Err())
	}
}

// run asks once the confirmation before it has ended.
func (c *confirmations) run(ctx context.Context, mine, before *confirmation, ask func(context.Context) (model.ClusterPoint, error)) {
	defer close(mine.done)
	if before != nil {
		<-before.done
	}
	c.mu.Lock()
	c.next, c.current = nil, mine
	c.mu.Unlock()
	defer panics.Handle(func(p *panics.Panic) {
		mine.err = errdefs.Internalf("confirming the state panicked, which is a defect of drover: %v\n%s", p.Value, p.Stack)
	})
	ctx, cancel := context.WithTimeout(ctx, vouchTimeout)
	defer cancel()
	mine.point, mine.err = ask(ctx)
}
