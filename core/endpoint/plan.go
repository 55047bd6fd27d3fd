// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/explain"
	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

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
	if err := assumeCounts(job, req.WhatIf); err != nil {
		return nil, err
	}
	found, err := e.check(ctx, job, req.Job)
	if err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, err)
	}
	if err := e.admit(job); err != nil {
		return nil, err
	}
	if err := e.Jobs.checkCount(job); err != nil {
		return nil, errdefs.New(errdefs.FailedPrecondition, err)
	}
	view := e.Store.View()
	cur := view.JobByID(job.Namespace, job.ID)
	keepScalingIDs(job, cur)
	warnings := append(found.warnings, job.MissingDependencies(e.neighbours(job))...)
	out := &api.JobPlanResponse{Warnings: jobspec.WarningText(job, warnings...), Findings: found.findings}
	job.SubmitTime = e.Now().UnixNano()
	altered, err := whatIf(view, job, req.WhatIf)
	if err != nil {
		return nil, err
	}
	if cur != nil {
		out.JobModifyIndex, out.Index = cur.JobModifyIndex, cur.JobModifyIndex
		job.Version, job.CreateIndex, job.JobModifyIndex, job.ModifyIndex = cur.Version, cur.CreateIndex, cur.JobModifyIndex, cur.ModifyIndex
		if model.SpecChanged(cur, job) {
			job.Version++
			job.JobModifyIndex = view.Index() + 1
		}
	} else {
		job.CreateIndex = view.Index() + 1 // it is unrelated to a purged job of the same name
	}
	eval := e.newEval(job, model.EvalTriggerJobRegister)
	eval.AnnotatePlan = true
	outcome := schedule.Process(altered, eval, e.Now(), ids{})
	out.Annotations = outcome.Annotations
	if len(outcome.FailedTGAllocs) > 0 {
		out.FailedTGAllocs = outcome.FailedTGAllocs
	}
	out.Held = outcome.Held
	if outcome.Blocked != nil {
		out.CreatedEvals = append(out.CreatedEvals, outcome.Blocked)
	}
	out.CreatedEvals = append(out.CreatedEvals, outcome.FollowUps...)
	out.NextPeriodicLaunch = e.nextLaunch(job)
	if req.Why || req.WhatIf != nil {
		out.Placed = plannedAllocs(outcome.Plan.Place)
		if !job.IsPeriodic() && !job.IsParameterized() {
			out.Groups = schedule.Explain(altered, job, e.Now(), ids{})
		}
	}
	if req.Say {
		out.Says = e.refusals(altered, job, out)
	}
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

// refusals says which groups of a planned job find no place, and why.
func (e *Endpoint) refusals(view schedule.View, job *model.Job, plan *api.JobPlanResponse) []string {
	if len(plan.FailedTGAllocs) == 0 {
		return nil
	}
	groups := plan.Groups
	if groups == nil {
		groups = schedule.Explain(view, job, e.Now(), ids{}, slices.Sorted(maps.Keys(plan.FailedTGAllocs))...)
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(g *model.GroupExplanation) bool { return g.Missing == 0 })
	return explain.Summaries(groups)
}

// assumeCounts sets the counts that a request assumes.
func assumeCounts(job *model.Job, w *api.WhatIf) error {
	if w == nil {
		return nil
	}
	for group, count := range w.Counts {
		tg := job.LookupTaskGroup(group)
		if tg == nil {
			return errdefs.InvalidArgumentf("job %q has no group %q whose count could be %d; name groups of the job", job.ID, group, count)
		}
		tg.Count = count
	}
	return nil
}

// whatIf returns the state as if the job were registered and the nodes were as the request
// assumes.
func whatIf(view *state.View, job *model.Job, w *api.WhatIf) (*schedule.Altered, error) {
	out := &schedule.Altered{View: view, Job: job}
	if w == nil {
		return out, nil
	}
	for ids, alter := range map[*[]string]func(*model.Node){&w.NodesDown: out.Down, &w.NodesDraining: out.Drain} {
		for _, id := range *ids {
			n := view.NodeByID(id)
			if n == nil {
				return nil, errdefs.NotFoundf("node %q does not exist; list the nodes with: drover node status", id)
			}
			alter(n)
		}
	}
	return out, nil
}

func plannedAllocs(placed []*model.Allocation) (out []*api.PlannedAlloc) {
	for _, a := range placed {
		out = append(out, &api.PlannedAlloc{
			Name: a.Name, TaskGroup: a.TaskGroup, NodeID: a.NodeID, NodeName: a.NodeName, Canary: a.DeploymentStatus.IsCanary(), Replaces: a.PreviousAllocation,
		})
	}
	return out
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
	known := scalingIDs(cur)
	for key, p := range scalingPolicies(job) {
		if p.ID = known[key]; p.ID == "" {
			p.ID = newID()
		}
	}
}

// scalingKey tells the policies of a job apart: a group has one, a task one per type.
type scalingKey struct{ group, task, kind string }

func scalingPolicies(job *model.Job) iter.Seq2[scalingKey, *model.ScalingPolicy] {
	return func(yield func(scalingKey, *model.ScalingPolicy) bool) {
		for _, tg := range job.TaskGroups {
			if tg.Scaling != nil && !yield(scalingKey{group: tg.Name}, tg.Scaling) {
				return
			}
			for _, t := range tg.Tasks {
				for _, p := range t.ScalingPolicies {
					if !yield(scalingKey{tg.Name, t.Name, p.Type}, p) {
						return
					}
				}
			}
		}
	}
}

func scalingIDs(job *model.Job) map[scalingKey]string {
	ids := map[scalingKey]string{}
	if job == nil {
		return ids
	}
	for key, p := range scalingPolicies(job) {
		ids[key] = p.ID
	}
	return ids
}
