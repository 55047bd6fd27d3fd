// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
)

// An evaluation that holds groups back because of their dependencies is blocked. Blocked
// finds it by the jobs on whose allocs it depends; the feeder looks at what they are now, once
// for each batch of changes, and releases it when there is something to decide.

// holdsLane reports whether the jobs behind a blocked evaluation in an ordered lane wait for it.
// One that waits for a job must not: that job may be behind it.
func holdsLane(e *model.Evaluation) bool { return takesTurns(e.Type) && e.WaitsForRoom() }

// awaits adds the dependencies of the groups that a blocked evaluation holds back.
func awaits(view *state.View, e *model.Evaluation, job *model.Job, need *queue.Need) {
	if len(e.Held) == 0 {
		return
	}
	need.NoRoom = !e.WaitsForRoom()
	for _, d := range job.DependsOn {
		need.On = append(need.On, model.JobKey{Namespace: job.Namespace, ID: d.Name})
	}
	if slices.ContainsFunc(job.TaskGroups, func(tg *model.TaskGroup) bool { return len(tg.DependsOn) > 0 }) {
		need.On = append(need.On, job.Key())
	}
	for group, h := range reconcile.Holds(view, job, time.Now()) {
		if e.Held[group] != nil && !h.Until.IsZero() && (need.Until.IsZero() || h.Until.Before(need.Until)) {
			need.Until = h.Until
		}
	}
}

// released reports whether a group that a blocked evaluation holds back does not wait any
// more: what it depends on is as it needs it, or its time is over.
func released(view *state.View, e *model.Evaluation) bool {
	if len(e.Held) == 0 {
		return false
	}
	job := view.JobByID(e.Namespace, e.JobID)
	if job == nil {
		return false // its own evaluation ends what is left of it
	}
	now := reconcile.Holds(view, job, time.Now())
	for group := range e.Held {
		if h := now[group]; h == nil || h.Over {
			return true
		}
	}
	return false
}

// jobOf returns the job on which others may depend that a change concerns.
func jobOf(c state.Change) (model.JobKey, bool) {
	obj := c.New
	if obj == nil {
		obj = c.Old
	}
	switch obj := obj.(type) {
	case *model.Allocation:
		return obj.JobKey(), true
	case *model.Job:
		return obj.Key(), true
	}
	return model.JobKey{}, false
}

// dependants releases the evaluations that have waited for what has become of the jobs.
func (f *Feeder) dependants(view *state.View, changed map[model.JobKey]bool) {
	for job := range changed {
		for _, e := range f.Blocked.Dependants(job) {
			f.survive(func() {
				if released(view, e) {
					f.Blocked.Release(e.ID)
				}
			}, "eval_id", e.ID)
		}
	}
}
