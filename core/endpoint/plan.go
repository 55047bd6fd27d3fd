// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// planView is the state as if the job were registered.
type planView struct {
	*state.View
	job *model.Job
}

// JobByID returns the planned job for its own name.
func (v planView) JobByID(ns, id string) *model.Job {
	if ns == v.job.Namespace && id == v.job.ID {
		return v.job
	}
	return v.View.JobByID(ns, id)
}

// JobByVersion returns the planned job for its own name and version.
func (v planView) JobByVersion(ns, id string, version uint64) *model.Job {
	if ns == v.job.Namespace && id == v.job.ID && version == v.job.Version {
		return v.job
	}
	return v.View.JobByVersion(ns, id, version)
}

// ids generates ids for the scheduler.
type ids struct{}

// NewID returns a UUID.
func (ids) NewID() string { return newID() }

// PlanJob returns what a registration would change: it runs the scheduler on the state
// with the job, and stores nothing.
func (e *Endpoint) PlanJob(ctx context.Context, req *api.JobPlanRequest) (*api.JobPlanResponse, error) {
	job, err := e.canonical(req.Job, req.Namespace)
	if err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != job.ID {
		return nil, errdefs.InvalidArgumentf("Job ID does not match")
	}
	found, err := e.check(ctx, job, req.Job)
	if err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, err)
	}
	if err := e.admit(job); err != nil {
		return nil, err
	}
	view := e.Store.View()
	cur := view.JobByID(job.Namespace, job.ID)
	keepScalingIDs(job, cur)
	out := &api.JobPlanResponse{Warnings: jobspec.WarningText(job, found.warnings...), Findings: found.findings}
	job.SubmitTime = e.Now().UnixNano()
	if cur != nil {
		out.JobModifyIndex, out.Index = cur.JobModifyIndex, cur.JobModifyIndex
		job.Version, job.CreateIndex, job.JobModifyIndex, job.ModifyIndex = cur.Version, cur.CreateIndex, cur.JobModifyIndex, cur.ModifyIndex
		if model.SpecChanged(cur, job) {
			job.Version++
			job.JobModifyIndex = view.Index() + 1
		}
	} else {
		job.CreateIndex = view.Index() + 1 // it has nothing in common with a purged job of its name
	}
	eval := e.newEval(job, model.EvalTriggerJobRegister)
	eval.AnnotatePlan = true
	outcome := schedule.Process(planView{view, job}, eval, e.Now(), ids{})
	out.Annotations = outcome.Annotations
	if len(outcome.FailedTGAllocs) > 0 {
		out.FailedTGAllocs = outcome.FailedTGAllocs
	}
	if outcome.Blocked != nil {
		out.CreatedEvals = append(out.CreatedEvals, outcome.Blocked)
	}
	out.CreatedEvals = append(out.CreatedEvals, outcome.FollowUps...)
	out.NextPeriodicLaunch = e.nextLaunch(job)
	for _, planned := range out.CreatedEvals {
		planned.SnapshotIndex = 0 // the state with the planned job exists only here
	}
	if !req.Diff {
		return out, nil
	}
	diff, err := model.DiffJobs(cur, job)
	if err != nil {
		return nil, err
	}
	diff.Annotate(outcome.Annotations)
	out.Diff = diff
	return out, nil
}

// nextLaunch returns the next launch of a periodic job, nil for other jobs.
func (e *Endpoint) nextLaunch(job *model.Job) *time.Time {
	if !job.IsPeriodicActive() {
		return nil
	}
	s, err := job.Periodic.Schedule()
	if err != nil {
		return nil // validation has reported the error
	}
	next := s.Next(e.Now())
	return &next
}

// keepScalingIDs sets the ids of scaling policies to the existing ones, or to new
// ones.
func keepScalingIDs(job, cur *model.Job) {
	for _, tg := range job.TaskGroups {
		if tg.Scaling == nil {
			continue
		}
		if was := cur.LookupTaskGroup(tg.Name); was != nil && was.Scaling != nil {
			tg.Scaling.ID = was.Scaling.ID
			continue
		}
		tg.Scaling.ID = newID()
	}
}
