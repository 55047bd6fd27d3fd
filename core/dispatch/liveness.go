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

const (
	// looksPerLease is how often the leases are looked at within one.
	looksPerLease = 8
	// statusBatch bounds how many nodes one Command marks.
	statusBatch = 256
)

// renew gives the node a fresh lease.
func (d *Dispatcher) renew(node *model.Node, now time.Time) rpc.Lease {
	lease := d.lease()
	d.mu.Lock()
	if d.leases != nil {
		d.leases[node.ID] = now.Add(lease + d.cfg.Grace)
		delete(d.away, node.ID)
	}
	d.mu.Unlock()
	view := d.cfg.Store.View()
	return rpc.Lease{TTL: lease, Index: view.Index(), Servers: d.cfg.Addresses(), Missing: missing(view, node), ClusterID: view.Cluster().At(0).ClusterID}
}

// Away gives a node that will be back soon a longer lease: see rpc.Servers. The end
// of its session does not shorten it.
func (d *Dispatcher) Away(_ context.Context, id rpc.Identity) error {
	node, err := d.known(d.cfg.Store.View(), id)
	if err != nil {
		return err
	}
	back := d.cfg.Now().Add(max(AwayTTL, d.lease()+d.cfg.Grace))
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, leads := d.leases[node.ID]; leads {
		d.leases[node.ID] = back
		d.away[node.ID] = true
	}
	return nil
}

// shorten lets the lease of a node whose session broke off end earlier: it has
// half of it, and the grace, to come back.
func (d *Dispatcher) shorten(nodeID string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	soon := now.Add(d.cfg.TTL/2 + d.cfg.Grace)
	if soon.Before(d.amnesty) {
		soon = d.amnesty
	}
	if end, ok := d.leases[nodeID]; ok && soon.Before(end) && !d.away[nodeID] {
		d.leases[nodeID] = soon
	}
}

// Lead watches the leases until ctx ends. It runs while this server leads. All
// nodes get a whole lease first: the leader before may have heard of them. They get
// one again when a look comes late: then it was this server that was silent (its
// process was stopped, its machine suspended), and what nodes have said waits to be
// read.
func (d *Dispatcher) Lead(ctx context.Context) {
	last := d.cfg.Now()
	d.grantAll(last)
	defer func() {
		d.mu.Lock()
		d.leases = nil
		clear(d.away)
		d.mu.Unlock()
	}()
	tick := time.NewTicker(d.cfg.TTL / looksPerLease)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := d.cfg.Now()
		slept := now.Sub(last) - d.cfg.TTL/looksPerLease
		last = now
		if slept >= d.cfg.TTL/2 {
			d.logger.Warn("this server did not run for a while: every node gets a whole lease to be heard of", "slept", slept)
			d.grantAll(now)
			continue
		}
		if err := d.expireSafely(ctx, now); err != nil && ctx.Err() == nil {
			d.logger.Warn("nodes that missed their heartbeat could not be marked; the next look tries again", "error", err)
		}
	}
}

// grantAll gives every node that is not down a whole lease, which the end of its
// session does not shorten: many sessions end at such a time.
func (d *Dispatcher) grantAll(now time.Time) {
	leases := map[string]time.Time{}
	whole := now.Add(d.whole())
	d.mu.Lock()
	defer d.mu.Unlock()
	for node := range d.cfg.Store.View().Nodes() {
		if node.Status != model.NodeStatusDown {
			leases[node.ID] = whole
			if end := d.leases[node.ID]; end.After(whole) { // it is away
				leases[node.ID] = end
			}
		}
	}
	d.leases, d.amnesty = leases, whole
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

// silent lists the nodes whose lease ended.
func (d *Dispatcher) silent(now time.Time) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id, end := range d.leases {
		if !now.Before(end) {
			ids = append(ids, id)
		}
	}
	return ids
}

// settle forgets nodes that are down or gone, and looks again later at those
// that may come back.
func (d *Dispatcher) settle(ids []string, now time.Time) {
	view := d.cfg.Store.View()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		node := view.NodeByID(id)
		switch end, ok := d.leases[id]; {
		case !ok || now.Before(end): // it was heard of meanwhile
		case node == nil || node.Status == model.NodeStatusDown:
			delete(d.leases, id)
			delete(d.away, id)
		default:
			d.leases[id] = now.Add(d.cfg.TTL)
		}
	}
}

// verdict says what becomes of a silent node: out of reach while one of its
// allocs may still reconnect, down otherwise. Nil changes nothing.
func (d *Dispatcher) verdict(view *state.View, id string, now time.Time) fsm.Command {
	node := view.NodeByID(id)
	if node == nil || node.Status == model.NodeStatusDown {
		return nil
	}
	status := model.NodeStatusDown
	if mayReconnect(view, id) {
		status = model.NodeStatusDisconnected
	}
	if node.Status == status {
		return nil
	}
	d.logger.Warn("a node missed its heartbeat", "node_id", id, "node", node.Name, "status", status)
	return d.statusCommand(view, node, status, "Node heartbeat missed", now)
}

// mayReconnect says whether an alloc of the node waits for it to come back.
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
