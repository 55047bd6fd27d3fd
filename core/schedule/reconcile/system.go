// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// System reconciles a system or sysbatch job: one alloc of every group on
// every node of nodes that is feasible. Nodes that are not are no failure.
func System(in Input, nodes []*model.Node) *Result {
	r := &run{Input: in, res: &Result{Updates: map[string]*model.DesiredUpdates{}}}
	r.cancelOldDeployment()
	if in.Job.Stopped() {
		r.stopEverything()
		return r.res
	}
	r.stopFormer()
	r.openSystemDeployment(nodes)
	groups := byGroup(r.Allocs)
	for _, tg := range in.Job.TaskGroups {
		r.systemGroup(tg, groups[tg.Name], nodes)
		delete(groups, tg.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) { // groups that the job has no more
		for _, a := range groups[name] {
			r.stopIfLive(a, DescNotNeeded)
		}
	}
	r.closeSystemDeployment()
	return r.res
}

func (r *run) systemGroup(tg *model.TaskGroup, allocs []*model.Allocation, nodes []*model.Node) {
	u := r.counts(tg.Name)
	held := map[string]bool{}
	var live, outdated []*model.Allocation
	previous := map[string]*model.Allocation{} // ended ones by node
	for _, a := range allocs {
		switch {
		case a.ServerTerminalStatus():
			r.bury(a)
			if a.ClientStatus == model.AllocClientStatusLost && a.NextAllocation == "" { // it may run there still: the next one waits for its end
				previous[a.NodeID] = a
			}
		case a.ClientTerminalStatus():
			switch {
			case a.NextAllocation != "": // replaced already
			case r.holdsNode(tg, a):
				held[a.NodeID] = true
				u.Ignore++
				live = append(live, a)
			default:
				previous[a.NodeID] = a
			}
		case tg.Count == 0:
			r.stopIfLive(a, DescNotNeeded)
		default:
			stops := len(r.res.Stop)
			keeps, old := r.systemAlloc(tg, a, u)
			held[a.NodeID] = keeps || held[a.NodeID]
			if len(r.res.Stop) == stops && r.reachOf(tg, a) == inReach {
				live = append(live, a)
			}
			if old {
				outdated = append(outdated, a)
			}
		}
	}
	if tg.Count == 0 {
		return
	}
	placed := 0
	for _, n := range nodes {
		if held[n.ID] {
			continue
		}
		p := Placement{Job: r.Job, Group: tg, Name: model.AllocName(r.Job.ID, tg.Name, 0), Node: n, Previous: previous[n.ID]}
		if r.current != nil && r.Feasible(tg, n) { // else it is only asked for to be counted as filtered
			p.Deployment, r.pending = r.join(tg), true
			placed++
		}
		r.res.Place = append(r.res.Place, p)
	}
	r.replaceOutdated(tg, outdated, live, placed, u)
}

// holdsNode reports whether an alloc that ended keeps its node: sysbatch work
// that was done, and what failed, whose restart policy was its only retry. A
// failure holds it until somebody forces a replacement, the job has a new
// version, or the node goes away, drains or fits no more.
func (r *run) holdsNode(tg *model.TaskGroup, a *model.Allocation) bool {
	switch {
	case tg.Count == 0 || a.DesiredTransition.ShouldForceReschedule():
		return false
	case r.Job.Type == model.JobTypeSysBatch:
		return !r.givenUp(a)
	case a.ClientStatus != model.AllocClientStatusFailed || a.JobVersion != r.Job.Version:
		return false
	}
	if n := r.Node(a.NodeID); n == nil || n.TerminalStatus() || n.DrainStrategy != nil || !r.Feasible(tg, n) {
		r.stop(a, DescNotNeeded, "")
		return false
	}
	return true
}

// systemAlloc decides about one running alloc and reports whether it keeps its
// node, and whether it is to be replaced there by one of the new version.
func (r *run) systemAlloc(tg *model.TaskGroup, a *model.Allocation, u *model.DesiredUpdates) (keeps, outdated bool) {
	n, at := r.Node(a.NodeID), r.reachOf(tg, a)
	switch {
	case at == lost:
		r.stop(a, DescLost, model.AllocClientStatusLost)
		u.Stop++
	case at == parted:
		r.part(tg, a)
		return true, false // it comes back with its node
	case at != inReach:
		u.Ignore++
		return true, false
	case a.DesiredTransition.ShouldMigrate():
		r.stop(a, DescMigrating, "")
		u.Stop++
	case !r.Feasible(tg, n):
		r.stop(a, DescNotNeeded, "")
		u.Stop++
		return true, false
	case a.JobVersion == r.Job.Version, !n.Ready(): // nothing is changed on a node that takes no work
		u.Ignore++
		return true, false
	case SameRuntime(r.jobOf(a), r.Job, tg.Name):
		r.updateInPlace(tg, a)
		u.InPlaceUpdate++
		return true, false
	default:
		return true, true
	}
	return false, false
}
