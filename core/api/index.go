// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import "github.com/drover-project/drover/core/model"

// The index of an answer is what a client waits behind, so it must rise with every
// change of the answer and never fall:
//   - of one row: its ModifyIndex;
//   - of a list that any row of a table may be in: that of the table;
//   - of the rows that belong to something: rowsIndex.

// firstIndex is the smallest index of an answer: a client that is told 0 would ask
// again at once, since 0 asks not to wait.
const firstIndex = 1

// rowsIndex is the index of the rows of a table that belong to something. A removal
// takes a row's index with it, so it counts by itself. further are indexes of what
// else decides which rows they are.
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

// bornIndex is the index at which the job that a query is about was made, or removed:
// what belongs to an earlier job of the same name leaves the lists then, or is in
// them again.
func bornIndex(v View, q *query, id string) uint64 {
	if j := v.JobByID(q.namespace, id); j != nil {
		return j.CreateIndex
	}
	return v.RemovalIndex(TableJobs)
}
