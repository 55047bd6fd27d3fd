// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// RecountJobs counts the allocs, evals and children of all jobs anew. What is
// counted is kept up to date with every write; this is for operators who do not
// trust it, and costs a pass over everything.
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
