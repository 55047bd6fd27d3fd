// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import "github.com/drover-project/drover/core/model"

// System reconciles a system or sysbatch job: one alloc of every group on every
// feasible node in nodes. It is not a failure if a node is not feasible.
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
	r.stopRemoved(groups)
	r.closeSystemDeployment()
	return r.res
}

// nodeSlots classifies the allocs of one group of a system job, of which a node has one.
type nodeSlots struct {
	held     map[string]bool              // nodes that have an alloc, by id
	previous map[string]*model.Allocation // what the next alloc of a node follows, by the node's id
	live     []*model.Allocation          // in reach; they hold their nodes
	away     []*model.Allocation          // out of reach; they hold their nodes as well
	outdated []*model.Allocation          // the new version is to replace them
}

func (r *run) systemGroup(tg *model.TaskGroup, allocs []*model.Allocation, nodes []*model.Node) {
	s := r.sortSystem(tg, allocs)
	if tg.Count == 0 {
		return
	}
	c := r.systemCanaries(tg, s.outdated, s.live)
	hold := r.hold(tg, allocs)
	if hold != nil { // as if canaries were awaited, none of which is due
		c.waiting, c.missing, c.before = true, 0, r.versionBefore(tg, s.outdated)
		r.holdBack(tg, hold, len(s.outdated))
	}
	placed := r.fillNodes(tg, s, &c, hold, nodes)
	r.replaceOutdated(tg, s.outdated, c, r.roomOfSystem(tg, s, placed), r.counts(tg.Name))
}

func (r *run) sortSystem(tg *model.TaskGroup, allocs []*model.Allocation) *nodeSlots {
	s, u := &nodeSlots{held: map[string]bool{}, previous: map[string]*model.Allocation{}}, r.counts(tg.Name)
	for _, a := range allocs {
		switch {
		case a.ServerTerminalStatus():
			r.bury(a)
			if a.ClientStatus == model.AllocClientStatusLost && a.NextAllocation == "" { // it may still run there: wait for its end
				s.previous[a.NodeID] = a
			}
		case a.ClientTerminalStatus():
			switch {
			case a.NextAllocation != "": // already replaced
			case r.holdsNode(tg, a):
				s.held[a.NodeID] = true
				u.Ignore++
				s.live = append(s.live, a)
			default:
				s.previous[a.NodeID] = a
			}
		case tg.Count == 0:
			r.stopIfLive(a, DescNotNeeded)
		default:
			stops := len(r.res.Stop)
			keeps, old := r.systemAlloc(tg, a, u)
			s.held[a.NodeID] = keeps || s.held[a.NodeID]
			if !keeps {
				s.previous[a.NodeID] = a // if it may not be stopped any more, nothing replaces it
			}
			switch {
			case len(r.res.Stop) > stops:
			case r.reachOf(tg, a) == inReach:
				s.live = append(s.live, a)
			default:
				s.away = append(s.away, a)
			}
			if old {
				s.outdated = append(s.outdated, a)
			}
		}
	}
	return s
}

// fillNodes requests an alloc for each node that has none. It returns how many of them join the
// deployment.
func (r *run) fillNodes(tg *model.TaskGroup, s *nodeSlots, c *canariesOfSystem, hold *model.Hold, nodes []*model.Node) (joined int) {
	var former []Placement
	for _, n := range nodes {
		if s.held[n.ID] {
			continue
		}
		p := Placement{Job: r.Job, Group: tg, Name: model.AllocName(r.Job.ID, tg.Name, 0), Node: n, Previous: s.previous[n.ID]}
		switch {
		case c.takes(r, p.Previous):
			p.Canary = true
		case c.before != nil && r.Feasible(tg, n): // whether the new version is good is open
			p.Job, p.Group = c.before, c.before.LookupTaskGroup(tg.Name)
			former = append(former, p)
			continue
		case hold != nil:
			if r.Feasible(tg, n) {
				r.holdBack(tg, hold, 1)
			}
			continue
		}
		if r.current != nil && r.Feasible(tg, n) { // otherwise the placement is requested only to count the node as filtered
			p.Deployment, r.pending = r.join(tg), true
			joined++
		}
		r.res.Place = append(r.res.Place, p)
	}
	r.res.Place = append(r.res.Place, former...)
	return joined
}

// holdsNode reports whether an ended alloc keeps its node: completed sysbatch work, or
// a failed alloc, which only its restart policy retries. A failed alloc keeps the node
// until a replacement is forced, the job has a new version, or the node disappears,
// drains or is no longer feasible.
func (r *run) holdsNode(tg *model.TaskGroup, a *model.Allocation) bool {
	switch {
	case tg.Count == 0 || a.DesiredTransition.ShouldForceReschedule():
		return false
	case r.Job.Type == model.JobTypeSysBatch:
		return !r.givenUp(a)
	case a.ClientStatus != model.AllocClientStatusFailed || a.JobVersion != r.Job.Version:
		return false
	}
	if n := r.Node(a.NodeID); n == nil || n.TerminalStatus() || n.DrainStrategy != nil || !r.MayStay(tg, n) {
		r.stop(a, DescNotNeeded, "")
		return false
	}
	return true
}

// systemStays reports whether a running alloc may stay on its node, as it is or, if it has to
// be replaced, with its replacement.
func (r *run) systemStays(tg *model.TaskGroup, a *model.Allocation, n *model.Node) bool {
	if SameRuntime(r.jobOf(a), r.Job, tg.Name) {
		return r.MayStay(tg, n)
	}
	return r.Feasible(tg, n)
}

// systemAlloc handles one running alloc. It reports whether the alloc keeps its node,
// and whether the new version should replace it there.
func (r *run) systemAlloc(tg *model.TaskGroup, a *model.Allocation, u *model.DesiredUpdates) (keeps, outdated bool) {
	n, at := r.Node(a.NodeID), r.reachOf(tg, a)
	switch {
	case at == lost:
		r.stop(a, DescLost, model.AllocClientStatusLost)
		u.Stop++
	case at == parted:
		r.part(tg, a)
		return true, false // it returns with its node
	case at != inReach:
		u.Ignore++
		return true, false
	case a.DesiredTransition.ShouldMigrate():
		r.stop(a, DescMigrating, "")
		u.Stop++
	case !r.systemStays(tg, a, n):
		r.stop(a, DescNotNeeded, "")
		u.Stop++
		return true, false
	case a.JobVersion == r.Job.Version, !n.Ready(): // no changes on a node that takes no work
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
