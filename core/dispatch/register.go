// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Register implements rpc.Servers: the leader stores the registration, and makes the node
// ready.
func (d *Dispatcher) Register(ctx context.Context, node *model.Node) (rpc.Lease, error) {
	return d.register(ctx, node, func() (Registered, error) { return d.leader.Register(ctx, d.cfg.ServerID, node) })
}

// Change implements rpc.Servers: like Register, but the leader makes the registration from
// the one in the state.
func (d *Dispatcher) Change(ctx context.Context, change *model.NodeChange) (rpc.Lease, error) {
	if change == nil {
		return rpc.Lease{}, errdefs.InvalidArgumentf("the change of the registration is empty; send the differences")
	}
	return d.register(ctx, change.Node, func() (Registered, error) { return d.leader.Change(ctx, d.cfg.ServerID, change) })
}

// register registers a node. It reads only the fields of node that every registration has.
func (d *Dispatcher) register(ctx context.Context, node *model.Node, store func() (Registered, error)) (rpc.Lease, error) {
	if node == nil {
		return rpc.Lease{}, errdefs.InvalidArgumentf("the registration is empty; send the node")
	}
	who := HeardNode{NodeID: node.ID, Instance: node.Instance, Session: node.Session}
	now := d.cfg.Now()
	if err := d.claim(who, now); err != nil {
		return rpc.Lease{}, err
	}
	arrived, err := d.arrive(node.ID, now)
	if err != nil {
		return rpc.Lease{}, err
	}
	defer arrived()
	fresh, err := d.identityFor(node) // check the token before anything is written
	if err != nil {
		return rpc.Lease{}, err
	}
	stored, err := store()
	if err != nil {
		return rpc.Lease{}, err
	}
	lease, err := d.welcome(ctx, who, stored.Index)
	lease.Version, lease.Now = stored.Version, d.cfg.Now()
	if lease.Identity = fresh; err == nil && fresh == "" {
		lease.Identity, err = d.identityFor(node) // it may have been unknown before
	}
	return lease, err
}

// identityFor returns a new identity for a node that has registered, "" if it needs none or
// gets one later.
func (d *Dispatcher) identityFor(node *model.Node) (string, error) {
	if d.cfg.Tokens == nil {
		return "", nil
	}
	view := d.cfg.Store.View()
	stored := view.NodeByID(node.ID)
	if stored == nil {
		return "", nil // removed meanwhile: it will register again
	}
	fresh, err := d.cfg.Tokens.Identity(view, stored, node.Token, d.cfg.Now())
	switch {
	case errdefs.IsPermissionDenied(err):
		return "", err
	case err != nil: // the node is known by its secret; its next registration asks again
		d.logger.Debug("a node gets no identity for now", "node_id", node.ID, "error", err)
	}
	return fresh, nil
}

// admit refuses a node that this server does not hear yet if too many return at this
// moment.
func (d *Dispatcher) admit(nodeID string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hearing.nodes[nodeID] != nil {
		return nil
	}
	return d.returns.admit(now)
}

// arrive does for a node that registers what admit does for other calls. The caller must call
// arrived at the end of the registration.
func (d *Dispatcher) arrive(nodeID string, now time.Time) (arrived func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hearing.nodes[nodeID] != nil {
		return func() {}, nil
	}
	if err := d.returns.arrive(now); err != nil {
		return nil, err
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.returns.arrived()
	}, nil
}

// welcome grants a lease to a node that the leader has made ready in the state of an index.
// The next report tells the leader that this server hears the node, even if the leader knew
// that already, since it may have given the node up meanwhile.
func (d *Dispatcher) welcome(ctx context.Context, who HeardNode, index uint64) (rpc.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, propose.Limit)
	defer cancel()
	if err := d.cfg.Store.Reach(ctx, index); err != nil {
		return rpc.Lease{}, err
	}
	node := d.cfg.Store.View().NodeByID(who.NodeID)
	if node == nil {
		return rpc.Lease{}, errdefs.NotFoundf("node %q was removed after its registration; register it again", who.NodeID)
	}
	lease := d.renew(node, who, d.cfg.Now())
	d.mu.Lock()
	d.hearing.tell(who.NodeID)
	d.mu.Unlock()
	d.hurry()
	return lease, nil
}

// Beat implements rpc.Servers: it renews the lease. If the node was down or disconnected,
// the leader makes it ready. It also learns at once of a node that this server did not
// hear until now, so that no node has a lease of which the leader does not know.
func (d *Dispatcher) Beat(ctx context.Context, id rpc.Identity) (rpc.Lease, error) {
	view := d.cfg.Store.View()
	node, err := d.known(view, id)
	if err != nil {
		return rpc.Lease{}, err
	}
	if err := d.granting(ctx); err != nil {
		return rpc.Lease{}, err
	}
	d.mu.Lock()
	heard := d.hearing.nodes[id.NodeID] != nil
	d.mu.Unlock()
	if heard && node.Status == model.NodeStatusReady {
		return d.renew(node, heardAs(id), d.cfg.Now()), nil
	}
	index, err := d.leader.Ready(ctx, d.cfg.ServerID, id)
	if err != nil {
		return rpc.Lease{}, err
	}
	return d.welcome(ctx, heardAs(id), index)
}

// Limits of a registration.
const (
	maxEventText    = 1024
	maxEventDetails = 16
)

// reported returns the newest events in a registration, with shortened texts.
func reported(events []*model.NodeEvent) []*model.NodeEvent {
	events = model.NewestNodeEvents(events)
	out := make([]*model.NodeEvent, 0, len(events))
	for _, e := range events {
		if e == nil {
			continue
		}
		c := &model.NodeEvent{Subsystem: cut(e.Subsystem), Message: cut(e.Message), Timestamp: e.Timestamp.UTC()}
		for _, k := range slices.Sorted(maps.Keys(e.Details)) {
			if len(c.Details) == maxEventDetails {
				break
			}
			if c.Details == nil {
				c.Details = map[string]string{}
			}
			c.Details[cut(k)] = cut(e.Details[k])
		}
		out = append(out, c)
	}
	return out
}

func cut(s string) string { return model.CutText(s, maxEventText) }
