// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// statusBatch is the maximum number of nodes that one Command marks.
const statusBatch = 256

// renew notes that a node was heard, and returns its lease.
func (d *Dispatcher) renew(node *model.Node, who HeardNode, now time.Time) rpc.Lease {
	lease := inStep(d.lease(), now)
	d.mu.Lock()
	news := d.hearing.heard(who, now)
	d.mu.Unlock()
	if news {
		d.hurry()
	}
	view := d.cfg.Store.View()
	return rpc.Lease{TTL: lease, Index: view.Index(), Servers: d.addresses.at(now, d.cfg.Addresses), Missing: missing(view, node), ClusterID: view.Cluster().At(0).ClusterID}
}

// Away implements rpc.Servers: the leader grants a longer lease, which the end of the
// session does not shorten.
func (d *Dispatcher) Away(ctx context.Context, id rpc.Identity) error {
	if _, err := d.known(d.cfg.Store.View(), id); err != nil {
		return err
	}
	return d.leader.Away(ctx, d.cfg.ServerID, id)
}

// rules returns the times by which the leader judges nodes.
func (d *Dispatcher) rules() rollRules {
	return rollRules{lease: d.lease(), broken: d.cfg.TTL / 2, grace: d.cfg.Grace, whole: d.whole()}
}

// Lead keeps the roll of all nodes until ctx ends. It runs while this server is the leader.
// First it grants all nodes a whole lease, because the previous leader may have heard of
// them. It does so again after this server was suspended.
func (d *Dispatcher) Lead(ctx context.Context) {
	d.takeRoll(d.cfg.Now())
	d.hurry()
	defer func() {
		d.mu.Lock()
		d.roll = nil
		d.mu.Unlock()
	}()
	tick := time.NewTicker(d.interval())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.wake()
		if err := d.expireSafely(ctx, d.cfg.Now()); err != nil && ctx.Err() == nil {
			d.logger.Warn("nodes that missed their heartbeat could not be marked; the next look tries again", "error", err)
		}
	}
}

// takeRoll begins a roll with every node that is not down.
func (d *Dispatcher) takeRoll(now time.Time) {
	var ids []string
	for node := range d.cfg.Store.View().Nodes() {
		if node.Status != model.NodeStatusDown {
			ids = append(ids, node.ID)
		}
	}
	rules := d.rules()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.roll = newRoll(rules)
	d.roll.excuse(ids, now)
}

// expireSafely is expire with panics converted to errors; the next tick tries again.
func (d *Dispatcher) expireSafely(ctx context.Context, now time.Time) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		err = errdefs.Internalf("marking silent nodes panicked, which is a defect of drover: %v\n%s", p.Value, p.Stack)
	})
	return d.expire(ctx, now)
}

// expire marks the nodes whose lease ended. A node that causes a panic is
// skipped.
func (d *Dispatcher) expire(ctx context.Context, now time.Time) error {
	silent := d.silent(now)
	view := d.cfg.Store.View()
	for len(silent) > 0 {
		n := min(len(silent), statusBatch)
		batch, ids := &fsm.Batch{}, silent[:n]
		silent = silent[n:]
		for _, id := range ids {
			p := panics.Catch(func() {
				if cmd := d.verdict(view, id, now); cmd != nil {
					batch.Commands = append(batch.Commands, cmd)
				}
			})
			if p != nil {
				d.logger.Error("a silent node cannot be marked; this is a defect of drover", p.Fields("node_id", id)...)
			}
		}
		if len(batch.Commands) > 0 {
			if _, err := d.propose(ctx, batch); err != nil {
				return err
			}
		}
		d.settle(ids, now)
	}
	return nil
}

// silent lists the nodes that have been silent for too long.
func (d *Dispatcher) silent(now time.Time) []string {
	rules := d.rules()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.roll == nil {
		return nil
	}
	d.roll.rules = rules
	for _, server := range d.roll.disown(now) {
		d.logger.Warn("a server has not been heard of for a lease: each of its nodes gets a whole lease to be heard by another", "server", server)
	}
	return d.roll.silent(now)
}

// settle removes those of the nodes that are down or no longer exist, and schedules another
// check of those that may reconnect.
func (d *Dispatcher) settle(ids []string, now time.Time) {
	view := d.cfg.Store.View()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.roll == nil {
		return
	}
	for _, id := range ids {
		node := view.NodeByID(id)
		switch p := d.roll.nodes[id]; {
		case p == nil || !p.silentAt(now): // a heartbeat has come in the meantime
		case node == nil || node.Status == model.NodeStatusDown:
			d.roll.forget(id)
		default:
			d.roll.later(id, now.Add(d.cfg.TTL))
		}
	}
}

// verdict returns the command for a silent node; nil means no change.
func (d *Dispatcher) verdict(view *state.View, id string, now time.Time) fsm.Command {
	node := view.NodeByID(id)
	if node == nil {
		return nil
	}
	status := StatusOfSilent(view, node)
	if node.Status == status {
		return nil
	}
	d.logger.Warn("a node missed its heartbeat", "node_id", id, "node", node.Name, "status", status)
	return d.statusCommand(view, node, status, "Node heartbeat missed", now)
}

// StatusOfSilent returns the status of a node that has been silent for too long: down,
// or disconnected while one of its allocs may reconnect. It is pure.
func StatusOfSilent(view *state.View, node *model.Node) string {
	if node.Status != model.NodeStatusDown && mayReconnect(view, node.ID) {
		return model.NodeStatusDisconnected
	}
	return model.NodeStatusDown
}

// mayReconnect reports whether an alloc of the node waits for its reconnect.
func mayReconnect(view *state.View, nodeID string) bool {
	for _, a := range view.AllocsByNode(nodeID) {
		if a.TerminalStatus() {
			continue
		}
		job := view.JobOf(a)
		if job == nil {
			continue
		}
		tg := job.LookupTaskGroup(a.TaskGroup)
		if tg == nil {
			continue
		}
		if tg.MaxClientDisconnect != nil || tg.Disconnect != nil && tg.Disconnect.LostAfter > 0 {
			return true
		}
	}
	return false
}
