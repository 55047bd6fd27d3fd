// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// A new version of a system job creates a deployment. Groups with an update block are
// replaced on max_parallel nodes at a time, and their health is awaited; other groups
// are replaced on all nodes at once without waiting. Nodes may come and go during a
// roll-out: it is successful when no alloc is outdated and all new ones are healthy,
// regardless of the number of nodes.

// openSystemDeployment finds the deployment of this version or drafts one. A
// deployment that waits for its first alloc is drafted again under the same id, for
// the current nodes.
func (r *run) openSystemDeployment(nodes []*model.Node) {
	if r.Job.Type != model.JobTypeSystem {
		return
	}
	found := r.ofThisVersion(r.Deployment)
	if found && (r.Deployment.Status != model.DeploymentStatusRunning || r.hasVersion()) {
		r.current = r.Deployment
		return
	}
	r.draft()
	if found {
		r.current.ID, r.current.CreateTime = r.Deployment.ID, r.Deployment.CreateTime
	}
	for _, tg := range r.Job.TaskGroups {
		ds := r.current.TaskGroups[tg.Name]
		if ds == nil {
			continue
		}
		ds.DesiredTotal = 0
		for _, n := range nodes {
			if tg.Count > 0 && r.Feasible(tg, n) {
				ds.DesiredTotal++
			}
		}
	}
}

// replaceOutdated replaces allocs of older versions, as many at a time as the group's
// update block allows. placed is the number of new allocs in the same reconciliation.
func (r *run) replaceOutdated(tg *model.TaskGroup, outdated, live []*model.Allocation, placed int, u *model.DesiredUpdates) {
	slices.SortFunc(outdated, func(a, b *model.Allocation) int { return cmp.Compare(a.NodeID, b.NodeID) })
	limit := len(outdated)
	switch {
	case r.halted():
		limit = 0
	case r.current != nil && !tg.Update.IsEmpty():
		limit = min(limit, max(r.room(tg, live)-placed, 0))
	}
	for i, a := range outdated {
		if i >= limit {
			u.Ignore++
			r.pending = true
			continue
		}
		if r.resize(tg, a) {
			u.InPlaceUpdate++
			r.pending = true
			continue
		}
		u.DestructiveUpdate++
		r.res.Place = append(r.res.Place, Placement{
			Job: r.Job, Group: tg, Name: a.Name, Previous: a, Node: r.Node(a.NodeID), Update: true, Deployment: r.join(tg),
		})
		r.pending = true
	}
}

// closeSystemDeployment returns a drafted deployment in the result, or ends one that
// is complete.
func (r *run) closeSystemDeployment() {
	switch {
	case r.current == nil:
	case r.fresh:
		r.handOut()
	case r.current.Status == model.DeploymentStatusRunning && !r.pending && r.allHealthy():
		r.updateDeployment(model.DeploymentStatusSuccessful, model.DeploymentStatusDescriptionSuccessful)
	}
}

// handOut stores a drafted deployment if an alloc joins it, or if this version is
// placed or updated for the first time. A deployment that waits for nothing is
// complete at once.
func (r *run) handOut() {
	if !r.used && (len(r.res.Place)+len(r.res.Changed) == 0 || r.hasVersion()) {
		return
	}
	if r.current.ID == "" {
		r.current.ID = r.NewID()
	}
	r.res.Deployment = r.current
	if !r.used {
		r.current.Status, r.current.StatusDescription = model.DeploymentStatusSuccessful, model.DeploymentStatusDescriptionSuccessful
	}
}

// hasVersion reports whether the job's newest version has an alloc already.
func (r *run) hasVersion() bool {
	return slices.ContainsFunc(r.Allocs, func(a *model.Allocation) bool { return a.JobVersion == r.Job.Version })
}

// allHealthy reports whether every desired alloc of the deployment is live and
// healthy. A failed alloc that keeps its node is neither.
func (r *run) allHealthy() bool {
	return !slices.ContainsFunc(r.Allocs, func(a *model.Allocation) bool {
		wanted := a.DeploymentID == r.current.ID && !a.ServerTerminalStatus() && a.NextAllocation == ""
		return wanted && (a.ClientTerminalStatus() || !a.DeploymentStatus.IsHealthy())
	})
}
