// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"cmp"
	"math"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// A new version of a system job creates a deployment. Groups with an update block are
// replaced on max_parallel nodes at a time, and their health is awaited; other groups
// are replaced on all nodes at once without waiting. Nodes may come and go during a
// roll-out: it is successful when no alloc is outdated and all new ones are healthy,
// regardless of the number of nodes.
//
// A node has one alloc of a system job, so a canary takes the place of an alloc of the
// older version: canary is the percentage of nodes on which that happens before the
// promotion. Canaries are placed max_parallel at a time too, because each stops what runs.

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

// canariesOfSystem is what a group of a system job whose canaries wait for their promotion
// needs; its zero value is a group without canaries.
type canariesOfSystem struct {
	waiting bool
	missing int        // how many more canaries are due
	before  *model.Job // the version of which nodes that are not canaries get allocs; nil: the newest
}

// systemCanaries returns the state of the group's canaries. A new deployment gets as many as
// the group's percentage of the allocs that the new version replaces, rounded up.
func (r *run) systemCanaries(tg *model.TaskGroup, outdated, live []*model.Allocation) (c canariesOfSystem) {
	if r.current == nil {
		return c
	}
	ds := r.current.TaskGroups[tg.Name]
	if ds == nil {
		return c
	}
	if r.current.Status == model.DeploymentStatusFailed && ds.DesiredCanaries > 0 && !ds.Promoted {
		c.before = r.versionBefore(tg, outdated) // it was never approved of
		return c
	}
	if !r.current.Active() {
		return c
	}
	if r.fresh {
		ds.DesiredCanaries = (len(outdated)*tg.Update.Canary + 99) / 100
	}
	if ds.DesiredCanaries == 0 || ds.Promoted {
		return c
	}
	c.waiting, c.missing = true, ds.DesiredCanaries
	for _, a := range live {
		if a.DeploymentID == r.current.ID && r.isCanary(a) {
			c.missing--
		}
	}
	c.before = r.versionBefore(tg, outdated)
	return c
}

// versionBefore returns the version of the job, among those that outdated allocs of a group
// run, that is the best one to fall back to, or nil.
func (r *run) versionBefore(tg *model.TaskGroup, outdated []*model.Allocation) (before *model.Job) {
	for _, a := range outdated {
		if old := r.jobOf(a); old.LookupTaskGroup(tg.Name) != nil && (before == nil || proven(old, before)) {
			before = old
		}
	}
	return before
}

// proven reports whether a version is a better one to fall back to than another: a stable
// one, and among equals the newer. The roll-out of a newer one may have been given up.
func proven(a, b *model.Job) bool {
	if a.Stable != b.Stable {
		return a.Stable
	}
	return a.Version > b.Version
}

// takes reports whether the alloc that follows prev on its node is a canary as prev was.
func (c *canariesOfSystem) takes(r *run, prev *model.Allocation) bool {
	if !c.waiting || c.missing <= 0 || r.halted() || prev == nil || prev.DeploymentID != r.current.ID || !r.isCanary(prev) {
		return false
	}
	c.missing--
	return true
}

// roomOfSystem returns how many allocs of the group may be replaced now, besides the placed
// ones on nodes that had none.
func (r *run) roomOfSystem(tg *model.TaskGroup, s *nodeSlots, placed int) int {
	switch {
	case r.halted():
		return 0
	case r.current == nil || tg.Update.IsEmpty():
		return math.MaxInt
	case slices.ContainsFunc(s.away, r.spoils):
		return 0
	}
	return max(r.room(tg, s.live)-placed, 0)
}

// replaceOutdated replaces allocs of older versions, as many at a time as there is room for,
// and before the promotion no more than there are canaries due.
func (r *run) replaceOutdated(tg *model.TaskGroup, outdated []*model.Allocation, c canariesOfSystem, room int, u *model.DesiredUpdates) {
	slices.SortFunc(outdated, func(a, b *model.Allocation) int { return cmp.Compare(a.NodeID, b.NodeID) })
	r.pending = r.pending || c.waiting || len(outdated) > 0
	if c.waiting {
		room = min(room, c.missing)
	}
	r.roomyFirst(tg, outdated, room)
	for i, a := range outdated {
		switch {
		case i >= room:
			u.Ignore++
			continue
		case c.waiting:
			u.Canary++
		case r.resize(tg, a):
			u.InPlaceUpdate++
			continue
		default:
			u.DestructiveUpdate++
		}
		r.res.Place = append(r.res.Place, Placement{
			Job: r.Job, Group: tg, Name: a.Name, Previous: a, Node: r.Node(a.NodeID), Update: true, Canary: c.waiting, Deployment: r.join(tg),
		})
	}
}

// roomyFirst moves as many allocs to the front as are due whose nodes have room for what
// replaces them. The others come last, so that one full node does not hold up the roll-out, and
// is reported in the end.
func (r *run) roomyFirst(tg *model.TaskGroup, outdated []*model.Allocation, due int) {
	if r.RoomInstead == nil || due <= 0 || due >= len(outdated) {
		return
	}
	roomy, rest := make([]*model.Allocation, 0, due), make([]*model.Allocation, 0, len(outdated))
	for i, a := range outdated {
		if len(roomy) == due {
			rest = append(rest, outdated[i:]...)
			break
		}
		if r.RoomInstead(tg, a) {
			roomy = append(roomy, a)
		} else {
			rest = append(rest, a)
		}
	}
	copy(outdated[copy(outdated, roomy):], rest)
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
	r.current.StatusDescription = describe(r.current)
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
