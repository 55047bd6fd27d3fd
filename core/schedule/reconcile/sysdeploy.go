// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"cmp"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// A new version of a system job is a deployment. Groups with an update block
// roll out max_parallel nodes at a time and wait for health; the others are
// replaced on all nodes at once, and nothing of them is waited for. Nodes
// come and go during a roll-out: it has succeeded when nothing is left to update
// and all that is new is healthy, however many nodes that are by then.

// openSystemDeployment finds the deployment of this version or drafts one. One
// that waits for its first alloc is drafted anew under its id, for the nodes
// that there are now.
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

// replaceOutdated replaces allocs of older versions, as many at once as the
// group's update block allows; placed is how many new ones come at the same time.
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
		u.DestructiveUpdate++
		r.res.Place = append(r.res.Place, Placement{
			Job: r.Job, Group: tg, Name: a.Name, Previous: a, Node: r.Node(a.NodeID), Update: true, Deployment: r.join(tg),
		})
		r.pending = true
	}
}

// closeSystemDeployment hands out a drafted deployment, or ends one that is done.
func (r *run) closeSystemDeployment() {
	switch {
	case r.current == nil:
	case r.fresh:
		r.handOut()
	case r.current.Status == model.DeploymentStatusRunning && !r.pending && r.allHealthy():
		r.updateDeployment(model.DeploymentStatusSuccessful, model.DeploymentStatusDescriptionSuccessful)
	}
}

// handOut stores a drafted deployment if something joins it or if something of
// this version is placed or updated for the first time. One that waits for
// nothing is over at once.
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

// allHealthy reports whether every alloc of the deployment that is wanted lives
// and is healthy: one that failed holds its node and is neither.
func (r *run) allHealthy() bool {
	return !slices.ContainsFunc(r.Allocs, func(a *model.Allocation) bool {
		wanted := a.DeploymentID == r.current.ID && !a.ServerTerminalStatus() && a.NextAllocation == ""
		return wanted && (a.ClientTerminalStatus() || !a.DeploymentStatus.IsHealthy())
	})
}
