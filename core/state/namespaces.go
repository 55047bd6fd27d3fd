// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TableNamespaces is the name of the table of namespaces.
const TableNamespaces = "namespaces"

var namespaceTable = &kind[model.Namespace]{
	heading: heading{name: TableNamespaces},
	schema:  schema[model.Namespace]{id: func(n *model.Namespace) string { return n.Name }},
	record:  3,
}

// NamespaceByName returns a namespace.
func (v *View) NamespaceByName(name string) *model.Namespace { return namespaceTable.in(v.t).get(name) }

// Namespaces yields all namespaces ordered by name.
func (v *View) Namespaces() iter.Seq[*model.Namespace] { return namespaceTable.in(v.t).all("") }

// UpsertNamespace stores a namespace. The transaction takes ownership of n.
func (tx *Tx) UpsertNamespace(n *model.Namespace) {
	n.CreateIndex, n.ModifyIndex = tx.index, tx.index
	if old := namespaceTable.in(tx.t).get(n.Name); old != nil {
		n.CreateIndex = old.CreateIndex
	}
	record(tx, namespaceTable, namespaceTable.in(tx.t).put(n), n)
}

// CheckDeleteNamespace returns an error if a namespace cannot be deleted.
func (tx *Tx) CheckDeleteNamespace(name string) error {
	if name == model.DefaultNamespace {
		return errdefs.InvalidArgumentf("default namespace can not be deleted")
	}
	if namespaceTable.in(tx.t).get(name) == nil {
		return errdefs.NotFoundf("namespace %q not found", name)
	}
	for j := range tx.View().Jobs(name) {
		if j.Status != model.JobStatusDead {
			return errdefs.FailedPreconditionf("namespace %q has non-terminal jobs, for example %q; stop them first", name, j.ID)
		}
	}
	for v := range tx.View().HostVolumes() {
		if v.Namespace == name {
			return errdefs.FailedPreconditionf("namespace %q has host volumes, for example %q (%s); delete them first", name, v.Name, v.ID)
		}
	}
	return nil
}

// DeleteNamespace removes a namespace. It fails if a job in it may still run.
func (tx *Tx) DeleteNamespace(name string) error {
	if err := tx.CheckDeleteNamespace(name); err != nil {
		return err
	}
	record(tx, namespaceTable, namespaceTable.in(tx.t).delete(name), nil)
	return nil
}
