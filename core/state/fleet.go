// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/drover-project/drover/core/model"
)

// fleet is the nodes of published tables as arrays, and where their usage is found: an
// evaluation goes through all nodes, and the tables' trees cost more than all that it does
// with a node.
type fleet struct {
	*model.Fleet
	nodes   *table[model.Node] // of which it was made
	set     *setToken          // of the table of usage
	handles []uint32           // by row, in the table of nodes
	usage   []uint32           // by row, in the table of usage
}

// noUsage is the handle of a node without a row of usage.
const noUsage = ^uint32(0)

// fleetOf makes the fleet of published tables when it is first asked for. What follows from
// a change of some nodes is made from the fleet before it.
type fleetOf struct {
	nodes *table[model.Node]
	usage *table[usageRow]
	known atomic.Pointer[fleet] // of these tables, or of earlier ones
	mu    sync.Mutex            // held by who makes it
}

// next returns the fleetOf of newer tables.
func (f *fleetOf) next(t *tables) *fleetOf {
	nodes, usage := nodeTable.in(t), usageTable.in(t)
	if f != nil && f.nodes == nodes && f.usage.set == usage.set {
		return f
	}
	out := &fleetOf{nodes: nodes, usage: usage}
	if f != nil {
		out.known.Store(f.known.Load())
	}
	return out
}

func (f *fleetOf) get() *fleet {
	if known := f.known.Load(); known.is(f.nodes, f.usage) {
		return known
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.known.Load()
	if !known.is(f.nodes, f.usage) {
		known = known.follow(f.nodes, f.usage)
		f.known.Store(known)
	}
	return known
}

func (f *fleet) is(nodes *table[model.Node], usage *table[usageRow]) bool {
	return f != nil && f.nodes == nodes && f.set == usage.set
}

// follow returns the fleet of the tables. f, the fleet of earlier tables or nil, saves work.
func (f *fleet) follow(nodes *table[model.Node], usage *table[usageRow]) *fleet {
	out := &fleet{nodes: nodes, set: usage.set}
	if f == nil || f.nodes.set != nodes.set {
		out.collect(nodes)
	} else {
		out.Fleet, out.handles = f.changed(nodes), f.handles
	}
	if f != nil && f.set == usage.set && f.nodes.set == nodes.set {
		out.usage = f.usage
	} else {
		out.find(usage)
	}
	return out
}

// collect goes through a table of nodes.
func (f *fleet) collect(t *table[model.Node]) {
	rows := make([]*model.Node, 0, t.len())
	f.handles = make([]uint32, 0, t.len())
	for h := range t.ids.ascend("", func(h uint32) string { return t.rows.get(h).ID }) {
		f.handles, rows = append(f.handles, h), append(rows, t.rows.get(h))
	}
	f.Fleet = model.NewFleet(rows)
}

// changed returns the fleet of a table with the same nodes, of which some have changed.
func (f *fleet) changed(t *table[model.Node]) *model.Fleet {
	other := map[int]*model.Node{}
	for row, h := range f.handles {
		if n := t.rows.get(h); n != f.Nodes[row] {
			other[row] = n
		}
	}
	if len(other) == 0 {
		return f.Fleet
	}
	return f.Replace(other)
}

// find looks the usage of each node up.
func (f *fleet) find(t *table[usageRow]) {
	f.usage = make([]uint32, len(f.Nodes))
	var hint btree.PathHint // both tables are ordered by id, so the next row is near the last one
	for row, n := range f.Nodes {
		h, ok := t.ids.getHint(n.ID, &hint)
		if !ok {
			h = noUsage
		}
		f.usage[row] = h
	}
}

// fleet returns the fleet of the view.
func (v *View) fleet() *fleet {
	if v.t.fleet != nil {
		return v.t.fleet.get()
	}
	// The tables of a transaction change with its writes.
	return (*fleet)(nil).follow(nodeTable.in(v.t), usageTable.in(v.t))
}

// Fleet returns the nodes. Its rows are in the order of NodesWithUse.
func (v *View) Fleet() *model.Fleet { return v.fleet().Fleet }
