// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TableNodePools is the name of the table of node pools.
const TableNodePools = "node_pools"

var poolTable = &kind[model.NodePool]{
	heading: heading{name: TableNodePools},
	schema:  schema[model.NodePool]{id: func(p *model.NodePool) string { return p.Name }},
	record:  4,
}

// NodePoolByName returns a node pool.
func (v *View) NodePoolByName(name string) *model.NodePool { return poolTable.in(v.t).get(name) }

// NodePools yields all node pools ordered by name.
func (v *View) NodePools() iter.Seq[*model.NodePool] { return poolTable.in(v.t).all("") }

// UpsertNodePool stores a node pool. The transaction takes ownership of p.
func (tx *Tx) UpsertNodePool(p *model.NodePool) {
	p.CreateIndex, p.ModifyIndex = tx.index, tx.index
	if old := poolTable.in(tx.t).get(p.Name); old != nil {
		p.CreateIndex = old.CreateIndex
	}
	record(tx, poolTable, poolTable.in(tx.t).put(p), p)
}

// CheckDeleteNodePool returns an error if a node pool cannot be deleted.
func (tx *Tx) CheckDeleteNodePool(name string) error {
	if name == model.NodePoolAll || name == model.NodePoolDefault {
		return errdefs.InvalidArgumentf("node pool %q is built in and can not be deleted", name)
	}
	if poolTable.in(tx.t).get(name) == nil {
		return errdefs.NotFoundf("node pool %q not found", name)
	}
	for n := range nodeTable.in(tx.t).all("") {
		if n.NodePool == name {
			return errdefs.FailedPreconditionf("node pool %q has nodes, for example %q; move or purge them first", name, n.ID)
		}
	}
	for j := range tx.View().Jobs("") {
		if j.NodePool == name && j.Status != model.JobStatusDead {
			return errdefs.FailedPreconditionf("node pool %q has non-terminal jobs, for example %q; stop them first", name, j.ID)
		}
	}
	return nil
}

// DeleteNodePool removes a node pool. It fails if the pool is in use.
func (tx *Tx) DeleteNodePool(name string) error {
	if err := tx.CheckDeleteNodePool(name); err != nil {
		return err
	}
	record(tx, poolTable, poolTable.in(tx.t).delete(name), nil)
	return nil
}
