// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// TablePeriodic is the name of the table of periodic launches.
const TablePeriodic = "periodic_launches"

var launchTable = &kind[model.PeriodicLaunch]{
	heading: heading{name: TablePeriodic},
	schema:  schema[model.PeriodicLaunch]{id: func(l *model.PeriodicLaunch) string { return JobKey(l.Namespace, l.ID) }},
	record:  14,
}

// PeriodicLaunch returns the last launch of a periodic job.
func (v *View) PeriodicLaunch(ns, id string) *model.PeriodicLaunch {
	return launchTable.in(v.t).get(JobKey(ns, id))
}

// ClockTrust is how far the time of a stored launch may be ahead of the clock. A
// launch that is further ahead was stored by a server with a wrong clock and is
// ignored.
const ClockTrust = time.Hour

// SetPeriodicLaunch stores the last launch of a periodic job. A forced launch may be
// older than the stored one; the newer one is then kept, unless it is beyond
// ClockTrust. The transaction takes ownership of l.
func (tx *Tx) SetPeriodicLaunch(l *model.PeriodicLaunch) {
	l.CreateIndex, l.ModifyIndex = tx.index, tx.index
	old := launchTable.in(tx.t).get(JobKey(l.Namespace, l.ID))
	if old != nil {
		if old.Launch > l.Launch && old.Launch <= l.Launch+int64(ClockTrust) {
			return
		}
		l.CreateIndex = old.CreateIndex
	}
	record(tx, launchTable, launchTable.in(tx.t).put(l), l)
}

func (tx *Tx) deletePeriodicLaunch(ns, id string) {
	if old := launchTable.in(tx.t).delete(JobKey(ns, id)); old != nil {
		record(tx, launchTable, old, nil)
	}
}

// JobByDispatchToken returns the child of a job that was dispatched with an
// idempotency token, nil if there is none.
func (v *View) JobByDispatchToken(ns, parentID, token string) *model.Job {
	if token == "" {
		return nil
	}
	for row := range jobTable.in(v.t).scan(jobsByToken, tokenKey(ns, parentID, token)) {
		return row.current()
	}
	return nil
}

func tokenKey(ns, parentID, token string) string { return JobKey(ns, parentID) + "\x00" + token }

// accountChild updates the parent's counts of children by status.
func (tx *Tx) accountChild(old, job *model.Job) {
	count := func(j *model.Job, by int64) {
		if j == nil || j.ParentID == "" {
			return
		}
		c := &tx.summaryOf(j.Namespace, j.ParentID).Children
		switch j.Status {
		case model.JobStatusPending:
			c.Pending += by
		case model.JobStatusRunning:
			c.Running += by
		case model.JobStatusDead:
			c.Dead += by
		}
	}
	count(old, -1)
	count(job, 1)
}

// forgotten reports whether all counts of the row are zero.
func (r *summaryRow) forgotten() bool {
	return r.Allocs == 0 && r.Evals == 0 && r.Children == model.JobChildrenSummary{}
}
