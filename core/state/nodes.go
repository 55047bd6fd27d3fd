// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TableNodes is the name of the table of nodes.
const TableNodes = "nodes"

// Rows that are derived from nodes are computed again when a node is restored.
var nodeTable = &kind[model.Node]{
	heading: heading{name: TableNodes},
	schema:  schema[model.Node]{id: func(n *model.Node) string { return n.ID }},
	saveAll: func(s *saver, t *table[model.Node]) { saveTable(s, recNode, t) },
	loadAll: map[byte]func(*loader, *table[model.Node], []byte) error{recNode: (*loader).node},
}

// usageRow is the resource usage of a node's allocs that have not ended there. Every node has
// one, and what is left on a node that was removed.
type usageRow struct {
	NodeID         string
	CPU, Mem, Disk int64
	Allocs         int
}

// Node usage is derived from allocs, so it is not saved.
var usageTable = &kind[usageRow]{
	schema: schema[usageRow]{id: func(u *usageRow) string { return u.NodeID }},
}

// NodeByID returns a node.
func (v *View) NodeByID(id string) *model.Node { return nodeTable.in(v.t).get(id) }

// Nodes yields all nodes ordered by id.
func (v *View) Nodes() iter.Seq[*model.Node] { return nodeTable.in(v.t).all("") }

// NodesFrom yields the nodes whose id is not smaller than from, ordered by id.
func (v *View) NodesFrom(from string) iter.Seq[*model.Node] { return nodeTable.in(v.t).all(from) }

// NodeCount returns how many nodes there are.
func (v *View) NodeCount() int { return nodeTable.in(v.t).len() }

// NodesWithUse yields all nodes, ordered by id, with the resource usage of their
// allocs as in NodeUsed.
func (v *View) NodesWithUse() iter.Seq2[*model.Node, model.NodeUse] {
	return func(yield func(*model.Node, model.NodeUse) bool) {
		f, rows := v.fleet(), &usageTable.in(v.t).rows
		for row, n := range f.Nodes {
			var use model.NodeUse
			if h := f.usage[row]; h != noUsage {
				u := rows.get(h)
				use = model.NodeUse{CPU: u.CPU, MemoryMB: u.Mem, DiskMB: u.Disk}
			}
			if !yield(n, use) {
				return
			}
		}
	}
}

// NodeUsed returns the resource usage of a node's allocs, in MHz, MB and MB of disk.
// Allocs count until their node reports that they have ended, even if servers want
// them to stop.
func (v *View) NodeUsed(nodeID string) (cpu, mem, disk int64) {
	u := usageTable.in(v.t).get(nodeID)
	if u == nil {
		return 0, 0, 0
	}
	return u.CPU, u.Mem, u.Disk
}

func (tx *Tx) writeNode(n *model.Node) {
	n.ModifyIndex = tx.index
	old := nodeTable.in(tx.t).put(n)
	record(tx, nodeTable, old, n)
	tx.accountDrivers(old, n)
	tx.accountSites(old, n)
	tx.accountServicesOfNode(old, n)
	tx.followHostVolumes(n.ID, n)
	tx.keepUsage(n.ID)
}

// RegisterNode stores a node's registration. Values that servers set (drain,
// eligibility) are kept, and reported events are added to the existing ones. A pool
// that does not exist is created. The transaction takes ownership of n.
func (tx *Tx) RegisterNode(n *model.Node) {
	reported := n.Events
	at := time.Unix(n.StatusUpdatedAt, 0).UTC()
	if n.NodePool == "" {
		n.NodePool = model.NodePoolDefault
	}
	if n.Status == "" {
		n.Status = model.NodeStatusInit
	}
	if old := nodeTable.in(tx.t).get(n.ID); old != nil {
		n.CreateIndex = old.CreateIndex
		n.DrainStrategy, n.Drain, n.LastDrain = old.DrainStrategy, old.DrainStrategy != nil, old.LastDrain
		n.SchedulingEligibility = old.SchedulingEligibility
		n.LastMissedHeartbeatIndex, n.LastAllocUpdateIndex = old.LastMissedHeartbeatIndex, old.LastAllocUpdateIndex
		n.Events = old.Events
		if old.Status == model.NodeStatusDown {
			tx.addEvent(n, &model.NodeEvent{Subsystem: "Cluster", Message: "Node re-registered", Timestamp: at})
		}
	} else {
		n.CreateIndex = tx.index
		if n.SchedulingEligibility == "" {
			n.SchedulingEligibility = model.NodeSchedulingEligible
		}
		n.Events = []*model.NodeEvent{{Subsystem: "Cluster", Message: "Node registered", Timestamp: at}}
	}
	for _, e := range reported {
		if !hasEvent(n.Events, e) { // a node repeats events until it knows that they have arrived
			tx.addEvent(n, e)
		}
	}
	if poolTable.in(tx.t).get(n.NodePool) == nil {
		tx.UpsertNodePool(&model.NodePool{Name: n.NodePool})
	}
	tx.writeNode(n)
}

// keepUsage makes a node have a row of usage as long as it exists, so that the rows seldom
// change places: see fleet.
func (tx *Tx) keepUsage(nodeID string) {
	if usageTable.in(tx.t).find(nodeID) == nil {
		usageTable.in(tx.t).put(&usageRow{NodeID: nodeID})
	}
}

func hasEvent(events []*model.NodeEvent, e *model.NodeEvent) bool {
	return slices.ContainsFunc(events, func(x *model.NodeEvent) bool {
		return e != nil && x.Timestamp.Equal(e.Timestamp) && x.Subsystem == e.Subsystem && x.Message == e.Message
	})
}

func (tx *Tx) addEvent(n *model.Node, e *model.NodeEvent) {
	if e == nil {
		return
	}
	c := *e
	c.CreateIndex = tx.index
	n.Events = append(slices.Clip(n.Events), &c)
	n.Events = model.NewestNodeEvents(n.Events)
}

// editNode replaces a node by an edited copy and adds an event.
func (tx *Tx) editNode(id string, e *model.NodeEvent, edit func(*model.Node)) error {
	old := nodeTable.in(tx.t).get(id)
	if old == nil {
		return nodeNotFound(id)
	}
	c := *old
	edit(&c)
	tx.addEvent(&c, e)
	tx.writeNode(&c)
	return nil
}

func nodeNotFound(id string) error {
	return errdefs.NotFoundf("node %q does not exist; it may have been purged", id)
}

// UpdateNodeStatus changes the status of a node. updatedAt is in Unix seconds.
func (tx *Tx) UpdateNodeStatus(id, status string, updatedAt int64, e *model.NodeEvent) error {
	return tx.editNode(id, e, func(n *model.Node) {
		if status == model.NodeStatusDown || status == model.NodeStatusDisconnected {
			n.LastMissedHeartbeatIndex = tx.index
		}
		n.Status, n.StatusUpdatedAt = status, updatedAt
	})
}

// UpdateNodeDrain starts (strategy is set) or ends a drain. After the end of a drain
// the node stays ineligible unless markEligible is set.
func (tx *Tx) UpdateNodeDrain(id string, strategy *model.DrainStrategy, markEligible bool, last *model.DrainMetadata, at int64, e *model.NodeEvent) error {
	return tx.editNode(id, e, func(n *model.Node) {
		n.DrainStrategy, n.Drain = strategy, strategy != nil
		switch {
		case strategy != nil:
			n.SchedulingEligibility = model.NodeSchedulingIneligible
		case markEligible:
			n.SchedulingEligibility = model.NodeSchedulingEligible
		}
		if last != nil {
			n.LastDrain = last
		}
		n.StatusUpdatedAt = at
	})
}

// UpdateNodeEligibility sets whether new allocs may be placed on a node. A draining
// node cannot be made eligible.
func (tx *Tx) UpdateNodeEligibility(id, eligibility string, at int64, e *model.NodeEvent) error {
	n := nodeTable.in(tx.t).get(id)
	if n != nil && n.DrainStrategy != nil && eligibility == model.NodeSchedulingEligible {
		return errdefs.FailedPreconditionf("can not set node %q eligible while it is draining; end the drain first", id)
	}
	return tx.editNode(id, e, func(n *model.Node) {
		n.SchedulingEligibility, n.StatusUpdatedAt = eligibility, at
	})
}

// AddNodeEvents appends events to a node.
func (tx *Tx) AddNodeEvents(id string, events []*model.NodeEvent) error {
	return tx.editNode(id, nil, func(n *model.Node) {
		for _, e := range events {
			tx.addEvent(n, e)
		}
	})
}

// DeleteNode removes a node.
func (tx *Tx) DeleteNode(id string) error {
	old := nodeTable.in(tx.t).delete(id)
	if old == nil {
		return nodeNotFound(id)
	}
	record(tx, nodeTable, old, nil)
	tx.accountDrivers(old, nil)
	tx.accountSites(old, nil)
	tx.accountServicesOfNode(old, nil)
	tx.followHostVolumes(id, nil)
	if u := usageTable.in(tx.t).get(id); u != nil && u.Allocs == 0 {
		usageTable.in(tx.t).delete(id)
	}
	return nil
}
