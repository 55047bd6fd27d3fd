// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/nodeevals"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Register stores the node's registration and makes it ready.
func (d *Dispatcher) Register(ctx context.Context, node *model.Node) (rpc.Lease, error) {
	if node == nil {
		return rpc.Lease{}, errdefs.InvalidArgumentf("the registration is empty; send the node")
	}
	stored := node.Copy()
	stored.Drivers, stored.Events = namedDrivers(node.Drivers), reported(node.Events)
	if err := stored.ValidateRegistration(); err != nil {
		return rpc.Lease{}, err
	}
	if node.Region != "" && d.cfg.Region != "" && node.Region != d.cfg.Region {
		return rpc.Lease{}, errdefs.InvalidArgumentf("this server is of region %q and the node of region %q; set the region, or the servers, in the node's configuration", d.cfg.Region, node.Region)
	}
	view := d.cfg.Store.View()
	if err := sameCluster(view, node.ClusterID); err != nil {
		return rpc.Lease{}, err
	}
	before := view.NodeByID(node.ID)
	if before != nil && !sameSecret(before.SecretID, node.SecretID) {
		return rpc.Lease{}, wrongSecret(node.ID)
	}
	now := d.cfg.Now()
	if err := d.claim(rpc.Identity{NodeID: node.ID, Instance: node.Instance}, now); err != nil {
		return rpc.Lease{}, err
	}
	stored.Region, stored.Instance, stored.ClusterID = "", "", ""
	stored.Status, stored.StatusUpdatedAt = model.NodeStatusReady, now.Unix()
	stored.ComputedClass = stored.ComputeClass()
	var cmd fsm.Command = &fsm.RegisterNode{Node: stored}
	if nodeevals.Needed(before, stored) {
		if evals := d.cfg.NodeEvals(view, stored, now); len(evals) > 0 {
			cmd = &fsm.Batch{Commands: []fsm.Command{cmd, &fsm.UpsertEvals{Evals: evals}}}
		}
	}
	if _, err := d.propose(ctx, cmd); err != nil {
		return rpc.Lease{}, err
	}
	return d.renew(stored, now), nil
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

// Beat renews the lease. It makes a node ready that was down or disconnected.
func (d *Dispatcher) Beat(ctx context.Context, id rpc.Identity) (rpc.Lease, error) {
	view := d.cfg.Store.View()
	node, err := d.known(view, id)
	if err != nil {
		return rpc.Lease{}, err
	}
	now := d.cfg.Now()
	if node.Status != model.NodeStatusReady {
		if err := d.setStatus(ctx, view, node, model.NodeStatusReady, "Node reregistered by heartbeat", now); err != nil {
			return rpc.Lease{}, err
		}
	}
	return d.renew(node, now), nil
}

func (d *Dispatcher) setStatus(ctx context.Context, view *state.View, node *model.Node, status, message string, now time.Time) error {
	_, err := d.propose(ctx, d.statusCommand(view, node, status, message, now))
	return err
}

func (d *Dispatcher) statusCommand(view *state.View, node *model.Node, status, message string, now time.Time) *fsm.UpdateNodeStatus {
	return &fsm.UpdateNodeStatus{
		NodeID:    node.ID,
		Status:    status,
		UpdatedAt: now.Unix(),
		Event:     &model.NodeEvent{Subsystem: "Cluster", Message: message, Timestamp: now.UTC()},
		Evals:     d.cfg.NodeEvals(view, node, now),
	}
}
