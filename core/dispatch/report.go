// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// looksPerLease is the number of reports to the leader within one lease, and of the
	// leader's checks of its roll.
	looksPerLease = 8
	// gapsPerLook is how many reports there may be between two looks, when something
	// changes.
	gapsPerLook = 20
)

// interval is the time between two looks.
func (d *Dispatcher) interval() time.Duration { return d.cfg.TTL / looksPerLease }

// hurry makes keepReporting report to the leader now, not at the next look.
func (d *Dispatcher) hurry() {
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// keepReporting reports to the leader until ctx ends: in every interval, and soon after a
// change. One report is under way at a time.
func (d *Dispatcher) keepReporting(ctx context.Context) {
	tick := time.NewTicker(d.interval())
	defer tick.Stop()
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gap.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.poke:
		}
		d.report(ctx)
		gap.Reset(d.interval() / gapsPerLook)
	}
}

// report makes one report and acts on the answer.
func (d *Dispatcher) report(ctx context.Context) {
	d.wake()
	view, late := d.cfg.Store.View(), lateAfter(d.lease())
	d.mu.Lock()
	begun := d.cfg.Now()
	d.hearing.late = late
	d.dropEnded(view, begun)
	r := d.hearing.report(begun)
	d.mu.Unlock()
	answer, err := d.tellLeader(ctx, r)
	d.mu.Lock()
	end := d.hearing.answered(begun, answer, err)
	if err == nil {
		close(d.acked)
		d.acked = make(chan struct{})
	}
	for _, e := range end {
		if s := d.sessions[e.NodeID]; s != nil {
			delete(d.sessions, e.NodeID)
			s.end(elsewhere(e))
		}
	}
	d.mu.Unlock()
	switch {
	case err != nil && ctx.Err() == nil:
		d.logger.Debug("the report of the nodes that this server hears did not reach the leader; the next report repeats it", "error", err)
	case answer.Again:
		d.hurry()
	case err == nil:
		d.confirmAgain(ctx)
	}
}

// tellLeader sends a report. A panic of the leader's code on this server is an error.
func (d *Dispatcher) tellLeader(ctx context.Context, r Report) (answer ReportAnswer, err error) {
	defer panics.Handle(func(p *panics.Panic) {
		err = errdefs.Internalf("the report to the leader panicked, which is a defect of drover: %v\n%s", p.Value, p.Stack)
	})
	ctx, cancel := context.WithTimeout(ctx, max(2*d.interval(), time.Second))
	defer cancel()
	return d.leader.Report(ctx, r)
}

func elsewhere(e NodeElsewhere) error {
	if e.Twice {
		return actsTwice(e.NodeID, "with server "+e.Server)
	}
	return errdefs.Abortedf("node %q has a newer session with another server", e.NodeID)
}

// dropEnded forgets nodes that are down or no longer exist and are not heard any more.
// The lock must be held.
func (d *Dispatcher) dropEnded(view *state.View, now time.Time) {
	for _, id := range d.hearing.overdue(now, 2*d.hearing.late) {
		if node := view.NodeByID(id); node == nil || node.Status == model.NodeStatusDown {
			d.hearing.leave(id, now)
		}
	}
}

// granting returns once this server may grant leases to nodes: only while the leader has
// heard from this server within a lease. Otherwise the leader could replace the allocs of a
// node that has a valid lease from this server. A node that gets the error must try another
// server.
func (d *Dispatcher) granting(ctx context.Context) error {
	lease := d.lease()
	d.mu.Lock()
	cutOff := d.hearing.cutOff(d.cfg.Now(), lease)
	d.mu.Unlock()
	if !cutOff { // runs for most heartbeats, so it must be cheap
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(2*d.interval(), time.Second))
	defer cancel()
	for {
		d.mu.Lock()
		cutOff, acked := d.hearing.cutOff(d.cfg.Now(), lease), d.acked
		d.mu.Unlock()
		if !cutOff {
			return nil
		}
		d.hurry()
		select {
		case <-acked:
		case <-ctx.Done():
			return errdefs.WithReason(errdefs.Unavailablef("this server has no contact with a leader, so it cannot keep the lease of a node; try another server"), rpc.ReasonLeave)
		}
	}
}

// stayAwake notices when this process did not run for a while.
func (d *Dispatcher) stayAwake(ctx context.Context) {
	tick := time.NewTicker(d.interval())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.wake()
		}
	}
}

// wake records that this process runs. If the process or its machine was suspended for a
// while, heartbeats wait to be read, and that time must not count as silence of nodes.
// Everything that judges nodes calls wake first.
func (d *Dispatcher) wake() {
	now := d.cfg.Now()
	rules := d.rules()
	d.mu.Lock()
	defer d.mu.Unlock()
	slept := now.Sub(d.awakeAt) - d.interval()
	d.awakeAt = now
	if slept < d.cfg.TTL/2 {
		return
	}
	d.logger.Warn("this server did not run for a while: every node gets a whole lease to be heard of", "slept", slept)
	d.hearing.excuse(now)
	if d.roll != nil {
		d.roll.rules = rules
		d.roll.excuse(nil, now)
	}
}
