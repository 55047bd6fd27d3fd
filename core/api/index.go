// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// The index of an answer is the value on which a client's next blocking query waits.
// It must increase with every change of the answer and never decrease. It is
//   - for one row: its ModifyIndex;
//   - for a list that any row of a table may be part of: the index of the table;
//   - for the rows that belong to an object: rowsIndex.

// firstIndex is the smallest index of an answer. A client that received 0 would poll
// without pause, since 0 means not to wait.
const firstIndex = 1

// rowsIndex returns the index of the rows of a table that belong to an object. It
// includes the table's RemovalIndex, because a removed row no longer contributes its
// own index. further are the indexes of other objects that decide which rows belong.
func rowsIndex[T any](v View, table string, rows []T, modified func(T) uint64, further ...uint64) uint64 {
	index := v.RemovalIndex(table)
	for _, row := range rows {
		index = max(index, modified(row))
	}
	for _, i := range further {
		index = max(index, i)
	}
	return index
}

func jobIndex(j *model.Job) uint64               { return j.ModifyIndex }
func allocIndex(a *model.Allocation) uint64      { return a.ModifyIndex }
func evalIndex(e *model.Evaluation) uint64       { return e.ModifyIndex }
func deploymentIndex(d *model.Deployment) uint64 { return d.ModifyIndex }

// bornIndex returns the index at which the job of a query was created or removed. At
// that point the allocs of an earlier job with its name leave the lists, or return to
// them.
func bornIndex(v View, q *query, id string) uint64 {
	if j := v.JobByID(q.namespace, id); j != nil {
		return j.CreateIndex
	}
	return v.RemovalIndex(state.TableJobs)
}
