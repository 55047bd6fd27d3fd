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

// planView is the state as it would be with the job registered.
type planView struct {
	*state.View
	job *model.Job
}

// JobByID returns the planned job under its own name.
func (v planView) JobByID(ns, id string) *model.Job {
	if ns == v.job.Namespace && id == v.job.ID {
		return v.job
	}
	return v.View.JobByID(ns, id)
}

// JobByVersion returns the planned job under its own name and version.
func (v planView) JobByVersion(ns, id string, version uint64) *model.Job {
	if ns == v.job.Namespace && id == v.job.ID && version == v.job.Version {
		return v.job
	}
	return v.View.JobByVersion(ns, id, version)
}

// ids mints ids for the scheduler.
type ids struct{}

// NewID returns a UUID.
func (ids) NewID() string { return newID() }

// PlanJob says what a registration would do: the scheduler runs on the state
// with the job in it, and nothing is stored.
func (e *Endpoint) PlanJob(_ context.Context, req *api.JobPlanRequest) (*api.JobPlanResponse, error) {
	job, err := e.canonical(req.Job, req.Namespace)
	if err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != job.ID {
		return nil, errdefs.InvalidArgumentf("Job ID does not match")
	}
	warnings, err := e.check(job, req.Job)
	if err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, err)
	}
	if err := e.admit(job); err != nil {
		return nil, err
	}
	view := e.Store.View()
	cur := view.JobByID(job.Namespace, job.ID)
	keepScalingIDs(job, cur)
	out := &api.JobPlanResponse{Warnings: jobspec.WarningText(job, warnings...)}
	job.SubmitTime = e.Now().UnixNano()
	if cur != nil {
		out.JobModifyIndex, out.Index = cur.JobModifyIndex, cur.JobModifyIndex
		job.Version, job.CreateIndex, job.JobModifyIndex, job.ModifyIndex = cur.Version, cur.CreateIndex, cur.JobModifyIndex, cur.ModifyIndex
		if model.SpecChanged(cur, job) {
			job.Version++
			job.JobModifyIndex = view.Index() + 1
		}
	} else {
		job.CreateIndex = view.Index() + 1 // of a job of its name that was purged it has nothing
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
		planned.SnapshotIndex = 0 // no state was looked at that anybody else can see
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

// nextLaunch is when a periodic job would be launched next, nil for others.
func (e *Endpoint) nextLaunch(job *model.Job) *time.Time {
	if !job.IsPeriodicActive() {
		return nil
	}
	s, err := job.Periodic.Schedule()
	if err != nil {
		return nil // validation has said so
	}
	next := s.Next(e.Now())
	return &next
}

// keepScalingIDs gives the scaling policies the ids that they have, or new ones.
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
