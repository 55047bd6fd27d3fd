// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

var namespaceTable = &kind[model.Namespace]{
	heading: heading{name: TableNamespaces},
	schema:  schema[model.Namespace]{id: func(n *model.Namespace) string { return n.Name }},
	at:      func(t *tables) **table[model.Namespace] { return &t.namespaces },
	record:  3,
}

// NamespaceByName returns a namespace.
func (v *View) NamespaceByName(name string) *model.Namespace { return v.t.namespaces.get(name) }

// Namespaces yields all namespaces ordered by name.
func (v *View) Namespaces() iter.Seq[*model.Namespace] { return v.t.namespaces.all("") }

// UpsertNamespace stores a namespace. The transaction takes ownership of n.
func (tx *Tx) UpsertNamespace(n *model.Namespace) {
	n.CreateIndex, n.ModifyIndex = tx.index, tx.index
	if old := tx.t.namespaces.get(n.Name); old != nil {
		n.CreateIndex = old.CreateIndex
	}
	record(tx, namespaceTable, tx.t.namespaces.put(n), n)
}

// CheckDeleteNamespace returns an error if a namespace cannot be deleted.
func (tx *Tx) CheckDeleteNamespace(name string) error {
	if name == model.DefaultNamespace {
		return errdefs.InvalidArgumentf("default namespace can not be deleted")
	}
	if tx.t.namespaces.get(name) == nil {
		return errdefs.NotFoundf("namespace %q not found", name)
	}
	for j := range tx.View().Jobs(name) {
		if j.Status != model.JobStatusDead {
			return errdefs.FailedPreconditionf("namespace %q has non-terminal jobs, for example %q; stop them first", name, j.ID)
		}
	}
	return nil
}

// DeleteNamespace removes a namespace. It fails if a job in it may still run.
func (tx *Tx) DeleteNamespace(name string) error {
	if err := tx.CheckDeleteNamespace(name); err != nil {
		return err
	}
	record(tx, namespaceTable, tx.t.namespaces.delete(name), nil)
	return nil
}
