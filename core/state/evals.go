// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"iter"

	"github.com/drover-project/drover/core/model"
)

const evalsByJob = 0

// TableEvals is the name of the table of evals.
const TableEvals = "evals"

var evalTable = &kind[model.Evaluation]{
	heading: heading{name: TableEvals},
	schema: schema[model.Evaluation]{
		id: func(e *model.Evaluation) string { return e.ID },
		secondaries: []secondary[model.Evaluation]{
			evalsByJob: {name: ByJob, watched: true, key: func(e *model.Evaluation) string { return JobKey(e.Namespace, e.JobID) }},
		},
	},
	record: 9,
}

// EvalByID returns an evaluation.
func (v *View) EvalByID(id string) *model.Evaluation { return evalTable.in(v.t).get(id) }

// EvalsByJob returns the evaluations of a job.
func (v *View) EvalsByJob(ns, id string) []*model.Evaluation {
	return evalTable.in(v.t).list(evalsByJob, JobKey(ns, id))
}

// Evals yields all evaluations ordered by id.
func (v *View) Evals() iter.Seq[*model.Evaluation] { return evalTable.in(v.t).all("") }

// UpsertEval stores an evaluation. A finished evaluation of a job cancels the job's
// older blocked ones, because it has already considered everything that they wait for.
// The transaction takes ownership of e.
func (tx *Tx) UpsertEval(e *model.Evaluation) {
	e.CreateIndex, e.ModifyIndex = tx.index, tx.index
	if old := evalTable.in(tx.t).get(e.ID); old != nil {
		e.CreateIndex = old.CreateIndex
		if e.CreateTime == 0 {
			e.CreateTime = old.CreateTime
		}
	}
	tx.writeEval(e)
	if e.JobID != "" && e.QueuedAllocations != nil {
		tx.summaryOf(e.Namespace, e.JobID).Queued = e.QueuedAllocations
	}
	if e.Status == model.EvalStatusComplete && len(e.FailedTGAllocs) == 0 && e.JobID != "" {
		tx.cancelBlocked(e)
	}
}

func (tx *Tx) writeEval(e *model.Evaluation) {
	old := evalTable.in(tx.t).put(e)
	tx.accountEval(old, e)
	record(tx, evalTable, old, e)
}

func (tx *Tx) cancelBlocked(done *model.Evaluation) {
	if tx.blockedEvals(done.Namespace, done.JobID) == 0 {
		return
	}
	// The order of rows in an index differs between servers: the result must not
	// depend on it.
	for _, e := range evalTable.in(tx.t).list(evalsByJob, JobKey(done.Namespace, done.JobID)) {
		if e.Status != model.EvalStatusBlocked || e.ID == done.BlockedEval {
			continue
		}
		c := *e
		c.Status = model.EvalStatusCancelled
		c.StatusDescription = "evaluation \"" + done.ID + "\" successful"
		c.ModifyIndex, c.ModifyTime = tx.index, done.ModifyTime
		tx.writeEval(&c)
	}
}

// DeleteEval removes an evaluation, if it exists.
func (tx *Tx) DeleteEval(id string) {
	old := evalTable.in(tx.t).delete(id)
	if old == nil {
		return
	}
	tx.accountEval(old, nil)
	record(tx, evalTable, old, nil)
}
