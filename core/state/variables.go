// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// VariableKey returns the Value of a watch Key for one variable.
func VariableKey(ns, path string) string { return variableID(ns, path) }

// variableID returns the id of a variable: its namespace and path, neither of which
// contains a zero byte.
func variableID(ns, path string) string { return ns + "\x00" + path }

// TableVariables is the name of the table of variables.
const TableVariables = "variables"

var variableTable = &kind[model.Variable]{
	heading: heading{name: TableVariables},
	schema:  schema[model.Variable]{id: func(v *model.Variable) string { return variableID(v.Namespace, v.Path) }},
	record:  40,
}

// VariableByPath returns a variable.
func (v *View) VariableByPath(ns, path string) *model.Variable {
	return variableTable.in(v.t).get(variableID(ns, path))
}

// Variables yields the variables of a namespace whose path begins with prefix,
// ordered by path; "" is every namespace, ordered by namespace and path.
func (v *View) Variables(ns, prefix string) iter.Seq[*model.Variable] {
	return func(yield func(*model.Variable) bool) {
		if ns == "" {
			for row := range variableTable.in(v.t).all("") {
				if strings.HasPrefix(row.Path, prefix) && !yield(row) {
					return
				}
			}
			return
		}
		for row := range variableTable.in(v.t).all(variableID(ns, prefix)) {
			if row.Namespace != ns || !strings.HasPrefix(row.Path, prefix) || !yield(row) {
				return
			}
		}
	}
}

// UpsertVariable stores a variable with a new modify index. The transaction takes
// ownership of row.
func (tx *Tx) UpsertVariable(row *model.Variable) {
	row.CreateIndex, row.ModifyIndex, row.CreateTime = tx.index, tx.index, row.ModifyTime
	if old := variableTable.in(tx.t).get(variableID(row.Namespace, row.Path)); old != nil {
		row.CreateIndex, row.CreateTime = old.CreateIndex, old.CreateTime
	}
	record(tx, variableTable, variableTable.in(tx.t).put(row), row)
}

// ReplaceVariable stores a variable whose contents are unchanged but which has another
// key or lock deadline; its modify index is kept.
func (tx *Tx) ReplaceVariable(row *model.Variable) {
	record(tx, variableTable, variableTable.in(tx.t).put(row), row)
}

// DeleteVariable removes a variable, if it exists.
func (tx *Tx) DeleteVariable(ns, path string) {
	if old := variableTable.in(tx.t).delete(variableID(ns, path)); old != nil {
		record(tx, variableTable, old, nil)
	}
}
