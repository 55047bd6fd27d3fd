// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"slices"

	"github.com/drover-project/drover/core/model"
)

func (r *run) ofThisVersion(d *model.Deployment) bool {
	return d != nil && d.JobCreateIndex == r.Job.CreateIndex && d.JobVersion == r.Job.Version
}

// cancelOldDeployment cancels a deployment that a newer version or a stop of the job
// supersedes.
func (r *run) cancelOldDeployment() {
	d := r.Deployment
	if !d.Active() {
		return
	}
	switch {
	case r.Job.Stopped():
		r.updateDeployment(model.DeploymentStatusCancelled, model.DeploymentStatusDescriptionStoppedJob)
	case !r.ofThisVersion(d):
		r.updateDeployment(model.DeploymentStatusCancelled, model.DeploymentStatusDescriptionNewerJob)
	}
}

func (r *run) updateDeployment(status, desc string) {
	r.res.DeploymentUpdates = append(r.res.DeploymentUpdates, &model.DeploymentStatusUpdate{
		DeploymentID: r.Deployment.ID, Status: status, StatusDescription: desc, UpdatedAt: r.Now.UnixNano(),
	})
}

// openDeployment finds the deployment of this version or drafts one. A draft is kept
// only if an alloc joins it.
func (r *run) openDeployment() {
	if r.Job.Type != model.JobTypeService || !r.Job.HasUpdateStrategy() {
		return
	}
	if r.ofThisVersion(r.Deployment) {
		r.current = r.Deployment
		return
	}
	r.draft()
}

// draft creates a deployment of the groups that have an update block. Their progress
// deadlines begin now, so that the deployment ends even if there is never room for any of
// its allocs.
func (r *run) draft() {
	j := r.Job
	r.fresh = true
	r.current = &model.Deployment{
		Namespace: j.Namespace, JobID: j.ID, JobVersion: j.Version, JobModifyIndex: j.ModifyIndex,
		JobSpecModifyIndex: j.JobModifyIndex, JobCreateIndex: j.CreateIndex,
		Status: model.DeploymentStatusRunning, StatusDescription: model.DeploymentStatusDescriptionRunning,
		EvalPriority: j.Priority, TaskGroups: map[string]*model.DeploymentState{},
		CreateTime: r.Now.UnixNano(), ModifyTime: r.Now.UnixNano(),
	}
	for _, tg := range j.TaskGroups {
		if !tg.Update.IsEmpty() {
			ds := &model.DeploymentState{
				AutoRevert: tg.Update.AutoRevert, AutoPromote: tg.Update.AutoPromote,
				ProgressDeadline: tg.Update.ProgressDeadline, DesiredTotal: tg.Count,
			}
			if ds.ProgressDeadline > 0 {
				ds.RequireProgressBy = r.Now.UTC().Add(ds.ProgressDeadline)
			}
			r.current.TaskGroups[tg.Name] = ds
		}
	}
}

// join returns the id of the deployment that a new alloc of the group belongs to, or "".
func (r *run) join(tg *model.TaskGroup) string {
	if r.current == nil || r.current.TaskGroups[tg.Name] == nil || !r.current.Active() {
		return ""
	}
	if r.fresh {
		r.used = true
		if r.current.ID == "" {
			r.current.ID = r.NewID()
		}
	}
	return r.current.ID
}

func (r *run) isCanary(a *model.Allocation) bool {
	d := r.Deployment
	if d == nil || d.ID != a.DeploymentID || d.TaskGroups[a.TaskGroup] == nil {
		return a.DeploymentStatus.IsCanary()
	}
	ds := d.TaskGroups[a.TaskGroup]
	return !ds.Promoted && (a.DeploymentStatus.IsCanary() || slices.Contains(ds.PlacedCanaries, a.ID))
}

// closeDeployment returns a drafted deployment in the result, or ends one that is
// complete.
func (r *run) closeDeployment() {
	switch {
	case r.used:
		r.current.StatusDescription = describe(r.current)
		r.res.Deployment = r.current
	case !r.fresh && r.current != nil && r.current.Status == model.DeploymentStatusRunning && !r.pending && r.current.Done():
		r.updateDeployment(model.DeploymentStatusSuccessful, model.DeploymentStatusDescriptionSuccessful)
	}
}

func describe(d *model.Deployment) string {
	if !d.RequiresPromotion() {
		return model.DeploymentStatusDescriptionRunning
	}
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 && !g.AutoPromote {
			return model.DeploymentStatusDescriptionRunningNeedsPromotion
		}
	}
	return model.DeploymentStatusDescriptionRunningAutoPromotion
}
