// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// run is one reconciliation of a service or batch job.
type run struct {
	Input
	res     *Result
	current *model.Deployment // deployment of this version: existing or drafted
	fresh   bool              // current is new
	used    bool              // an alloc joins the fresh deployment
	pending bool              // the current version is not rolled out completely
	left    int               // remainder of MaxPlacements

	unchanged map[string]*unchanged // by group
}

// Service reconciles a service or batch job.
func Service(in Input) *Result {
	r := &run{Input: in, left: MaxPlacements, res: &Result{Updates: map[string]*model.DesiredUpdates{}, Deferred: map[string]int{}}}
	r.cancelOldDeployment()
	if in.Job.Stopped() {
		r.stopEverything()
		return r.res
	}
	r.stopFormer()
	r.openDeployment()
	groups := byGroup(r.Allocs)
	for _, tg := range in.Job.TaskGroups {
		r.group(tg, groups[tg.Name])
		delete(groups, tg.Name)
	}
	r.stopRemoved(groups)
	r.closeDeployment()
	return r.res
}

func (r *run) counts(group string) *model.DesiredUpdates {
	u := r.res.Updates[group]
	if u == nil {
		u = &model.DesiredUpdates{}
		r.res.Updates[group] = u
	}
	return u
}

func (r *run) stop(a *model.Allocation, desc, clientStatus string) {
	r.res.Stop = append(r.res.Stop, Stop{a, desc, clientStatus})
}

func (r *run) stopIfLive(a *model.Allocation, desc string) {
	if a.TerminalStatus() {
		r.bury(a)
		return
	}
	status := ""
	if n := r.Node(a.NodeID); n == nil || n.TerminalStatus() {
		status = model.AllocClientStatusLost
	}
	r.stop(a, desc, status)
	r.counts(a.TaskGroup).Stop++
}

// stopEverything stops live and failed allocs of a stopped or purged job.
func (r *run) stopEverything() {
	for _, a := range r.Allocs {
		r.end(a)
	}
}

// stopRemoved stops the allocs of groups that the job no longer has.
func (r *run) stopRemoved(groups map[string][]*model.Allocation) {
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		for _, a := range groups[name] {
			r.stopIfLive(a, DescNotNeeded)
		}
	}
}

// stopFormer stops the allocs of a purged job with the same name and excludes them
// from everything else, since they have other versions.
func (r *run) stopFormer() {
	if !slices.ContainsFunc(r.Allocs, func(a *model.Allocation) bool { return !r.Job.Owns(a) }) {
		return
	}
	own := make([]*model.Allocation, 0, len(r.Allocs))
	for _, a := range r.Allocs {
		if r.Job.Owns(a) {
			own = append(own, a)
		} else {
			r.end(a)
		}
	}
	r.Allocs = own
}

// end stops an alloc that is live or has failed.
func (r *run) end(a *model.Allocation) {
	r.stopIfLive(a, DescNotNeeded)
	if a.ClientStatus == model.AllocClientStatusFailed && !a.ServerTerminalStatus() {
		r.stop(a, DescNotNeeded, "")
	}
}

// group reconciles one group.
func (r *run) group(tg *model.TaskGroup, allocs []*model.Allocation) {
	u := r.counts(tg.Name)
	s := r.sort(tg, allocs)
	s.hold = r.hold(tg, allocs)
	for _, a := range s.oldCanaries {
		r.stopIfLive(a, DescNotNeeded)
	}
	s.dropSurplus(r, u)
	outdated := s.update(r, u)
	canarying := r.canaries(tg, s, outdated, u)
	placed := r.replace(tg, s, canarying, u)
	placed += r.missing(tg, s, canarying, u)
	r.roll(tg, s, outdated, canarying, placed, u)
}

// replace places replacements for allocs that are lost, migrate, have failed or are
// unhealthy, and returns how many of them join the deployment.
func (r *run) replace(tg *model.TaskGroup, s *slots, canarying bool, u *model.DesiredUpdates) (joined int) {
	for _, l := range s.leaving {
		if !l.vacant {
			r.stop(l.alloc, l.desc, l.clientStatus)
		}
		switch {
		case l.drop && l.alloc.ServerTerminalStatus(): // it ends already
			continue
		case l.drop:
			u.Stop++
			continue // nor does it begin a deployment
		case l.desc == DescMigrating:
			u.Migrate++
		default:
			u.Place++
			if !l.vacant {
				u.Stop++
			}
		}
		p := Placement{Job: r.Job, Group: tg, Name: l.alloc.Name, Previous: l.alloc, Reschedule: l.reschedule}
		r.inherit(&p, tg, canarying || s.hold != nil)
		if p.Job == r.Job && l.alloc.JobVersion != r.Job.Version {
			p.Name = r.nameOfUpdate(s, l.alloc)
		}
		if p.Deployment != "" {
			joined++
		}
		r.res.Place = append(r.res.Place, p)
	}
	return joined
}

// inherit sets the version and deployment of the replacement of p.Previous. With keep it
// runs the version that p.Previous ran.
func (r *run) inherit(p *Placement, tg *model.TaskGroup, keep bool) {
	prev := p.Previous
	if old := r.jobOf(prev); keep && prev.JobVersion != r.Job.Version && old.LookupTaskGroup(tg.Name) != nil {
		p.Job, p.Group = old, old.LookupTaskGroup(tg.Name)
		return
	}
	p.Canary = r.isCanary(prev)
	p.Deployment = r.join(tg)
}

// missing places the allocs that are missing from the count.
func (r *run) missing(tg *model.TaskGroup, s *slots, canarying bool, u *model.DesiredUpdates) int {
	want := tg.Count - s.held()
	older := canarying && len(s.live) > 0 // the canaries stand beside allocs of an older version
	if want <= 0 || older || r.halted() && !r.foundNoRoom() {
		return 0
	}
	if s.hold != nil {
		r.holdBack(tg, s.hold, want)
		return 0
	}
	dep, now := r.join(tg), r.spend(tg, want)
	r.res.grow(now)
	for _, name := range s.freeNames(r.Job, now) {
		r.res.Place = append(r.res.Place, Placement{Job: r.Job, Group: tg, Name: name, Deployment: dep})
	}
	u.Place += uint64(want)
	r.pending = true
	return want
}

// spend returns how many of the missing allocs are placed now, and records the others
// as deferred.
func (r *run) spend(tg *model.TaskGroup, want int) int {
	now := min(want, r.left)
	r.left -= now
	if now < want {
		r.res.Deferred[tg.Name] += want - now
	}
	return now
}

// halted reports whether the roll-out of this version is paused or has failed.
func (r *run) halted() bool {
	return r.current != nil && (r.current.Status == model.DeploymentStatusPaused || r.current.Status == model.DeploymentStatusFailed)
}

// foundNoRoom reports whether the roll-out of this version has failed before any alloc of
// it was placed. This says nothing against the version: what is missing is placed when
// there is room, without a deployment.
func (r *run) foundNoRoom() bool {
	if r.current.Status != model.DeploymentStatusFailed {
		return false
	}
	for _, g := range r.current.TaskGroups {
		if g.PlacedAllocs > 0 {
			return false
		}
	}
	return true
}

// canaries places the canaries that are due and reports whether the group waits for
// them.
func (r *run) canaries(tg *model.TaskGroup, s *slots, outdated []*model.Allocation, u *model.DesiredUpdates) bool {
	if r.current == nil || tg.Update.IsEmpty() || tg.Update.Canary == 0 {
		return false
	}
	ds := r.current.TaskGroups[tg.Name]
	if ds == nil || ds.Promoted {
		return false
	}
	if r.fresh && len(outdated) > 0 {
		ds.DesiredCanaries = tg.Update.Canary
	}
	if ds.DesiredCanaries == 0 {
		return false
	}
	r.pending = true
	want := ds.DesiredCanaries - len(s.canaries)
	if len(outdated) == 0 { // no allocs of an older version are left
		want = min(want, len(s.movedCanaries)+len(s.failedCanary))
	}
	if want <= 0 || r.halted() {
		return true
	}
	if s.hold != nil {
		r.holdBack(tg, s.hold, want)
		return true
	}
	now := r.spend(tg, want)
	names := s.freeCanaryNames(r.Job, max(0, now-len(s.movedCanaries)-len(s.failedCanary)))
	for i := range now {
		p := Placement{Job: r.Job, Group: tg, Canary: true, Deployment: r.join(tg)}
		switch failed := i - len(s.movedCanaries); {
		case failed < 0:
			p.Previous = s.movedCanaries[i]
			p.Name = p.Previous.Name
			u.Migrate++
		case failed < len(s.failedCanary):
			p.Previous, p.Reschedule = s.failedCanary[failed], true
			p.Name = p.Previous.Name
			r.stop(p.Previous, rescheduled(p.Previous), "")
			u.Place++
			u.Stop++
		default:
			p.Name, names = names[0], names[1:]
			u.Canary++
		}
		r.res.Place = append(r.res.Place, p)
	}
	return true
}

// roll replaces allocs of older versions, as many at a time as the update strategy
// allows.
func (r *run) roll(tg *model.TaskGroup, s *slots, outdated []*model.Allocation, canarying bool, placed int, u *model.DesiredUpdates) {
	limit := len(outdated)
	switch {
	case canarying || r.halted():
		limit = 0
	case s.hold != nil:
		r.holdBack(tg, s.hold, limit)
		limit = 0
	case tg.Update.IsEmpty() || r.current == nil:
	case r.spoiled(s):
		limit = 0
	default:
		limit = min(limit, r.room(tg, s.live)-placed)
	}
	for _, a := range outdated {
		if limit <= 0 || s.contested[a.ID] {
			u.Ignore++
			continue
		}
		limit--
		if r.resize(tg, a) {
			u.InPlaceUpdate++
			continue
		}
		u.DestructiveUpdate++
		r.res.Place = append(r.res.Place, Placement{
			Job: r.Job, Group: tg, Name: r.nameOfUpdate(s, a), Previous: a, Deployment: r.join(tg), Update: true,
		})
	}
	r.pending = r.pending || len(outdated) > 0
}

// room returns how many further allocs of the group may be replaced now: max_parallel
// minus the allocs of this deployment that are not healthy yet, and 0 once one is
// unhealthy or has failed.
func (r *run) room(tg *model.TaskGroup, live []*model.Allocation) int {
	room := tg.Update.MaxParallel
	for _, a := range live {
		switch {
		case !r.rolledOut(a):
		case r.spoils(a):
			return 0
		case !a.DeploymentStatus.IsHealthy():
			room--
		}
	}
	return max(room, 0)
}

// rolledOut reports whether an alloc is one of the current deployment's.
func (r *run) rolledOut(a *model.Allocation) bool {
	return a.DeploymentID == r.current.ID && a.JobVersion == r.Job.Version
}

// spoils reports whether an alloc of the current deployment has failed or is unhealthy. As long
// as one has no replacement and is not given up, nothing that runs is stopped for the new
// version.
func (r *run) spoils(a *model.Allocation) bool {
	return r.rolledOut(a) && (a.ClientStatus == model.AllocClientStatusFailed || a.DeploymentStatus.IsUnhealthy())
}

// spoiled reports whether that is so for an alloc that is not live any more, or will be
// replaced.
func (r *run) spoiled(s *slots) bool {
	return slices.ContainsFunc(s.kept, r.spoils) || slices.ContainsFunc(s.leaving, func(l *leaver) bool { return !l.drop && r.spoils(l.alloc) })
}
