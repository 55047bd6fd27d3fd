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
	// looksPerLease is the number of lease checks within one lease.
	looksPerLease = 8
	// statusBatch is the maximum number of nodes that one Command marks.
	statusBatch = 256
)

// renew renews the node's lease.
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

// Away implements rpc.Servers: it grants a longer lease, which the end of the session
// does not shorten.
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

// shorten shortens the lease of a node whose session broke off: it has half a lease,
// and the grace, to reconnect.
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

// Lead checks the leases until ctx ends. It runs while this server is the leader.
// First it grants all nodes a full lease, because the previous leader may have heard
// of them. It does so again when a check runs late: then this server was suspended,
// and heartbeats are waiting to be read.
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

// grantAll grants every node that is not down a full lease, which the end of its
// session does not shorten, because many sessions end at such a time.
func (d *Dispatcher) grantAll(now time.Time) {
	leases := map[string]time.Time{}
	whole := now.Add(d.whole())
	d.mu.Lock()
	defer d.mu.Unlock()
	for node := range d.cfg.Store.View().Nodes() {
		if node.Status != model.NodeStatusDown {
			leases[node.ID] = whole
			if end := d.leases[node.ID]; end.After(whole) { // its agent has announced a restart
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

// silent lists the nodes whose lease has ended.
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

// settle removes nodes that are down or no longer exist, and schedules another check
// for nodes that may reconnect.
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

// verdict returns the command for a silent node: disconnected while one of its allocs
// may reconnect, otherwise down. nil means no change.
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
