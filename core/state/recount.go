// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// RecountJobs recomputes the counts of allocs, evals and children of all jobs. Every
// write already updates them; this is for operators who suspect a defect, and costs a
// pass over all rows.
func (tx *Tx) RecountJobs() {
	for row := range summaryTable.in(tx.t).all("") { // allocs and children may outlive their job
		tx.summaryOf(row.Namespace, row.JobID)
	}
	for row := range jobTable.in(tx.t).all("") {
		tx.summaryOf(row.Namespace, row.ID)
	}
	for key, s := range tx.derived.jobs {
		*s = summaryRow{
			Namespace: s.Namespace, JobID: s.JobID, Queued: s.Queued, CreateIndex: s.CreateIndex, ModifyIndex: s.ModifyIndex,
			Bare: isTemplate(jobTable.in(tx.t).get(key).current()),
		}
	}
	for row := range jobTable.in(tx.t).all("") {
		tx.accountChild(nil, row.current())
	}
	for a := range allocTable.in(tx.t).all("") {
		tx.countAlloc(a, 1)
	}
	for e := range evalTable.in(tx.t).all("") {
		tx.accountEval(nil, e)
	}
}

func isTemplate(j *model.Job) bool { return j != nil && (j.IsPeriodic() || j.IsParameterized()) }
