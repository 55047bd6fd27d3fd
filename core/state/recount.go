// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// RecountJobs recomputes the counts of allocs, evals and children of all jobs. Every
// write already updates them; this is for operators who suspect a defect, and costs a
// pass over all rows.
func (tx *Tx) RecountJobs() {
	for row := range tx.t.summaries.all("") { // allocs and children may outlive their job
		tx.summaryOf(row.Namespace, row.JobID)
	}
	for row := range tx.t.jobs.all("") {
		tx.summaryOf(row.Namespace, row.ID)
	}
	for key, s := range tx.derived.jobs {
		*s = summaryRow{
			Namespace: s.Namespace, JobID: s.JobID, Queued: s.Queued, CreateIndex: s.CreateIndex, ModifyIndex: s.ModifyIndex,
			Bare: isTemplate(tx.t.jobs.get(key).current()),
		}
	}
	for row := range tx.t.jobs.all("") {
		tx.accountChild(nil, row.current())
	}
	for a := range tx.t.allocs.all("") {
		tx.countAlloc(a, 1)
	}
	for e := range tx.t.evals.all("") {
		tx.accountEval(nil, e)
	}
}

func isTemplate(j *model.Job) bool { return j != nil && (j.IsPeriodic() || j.IsParameterized()) }
