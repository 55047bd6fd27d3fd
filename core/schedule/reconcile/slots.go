// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// slots sorts the allocs of one group by what they mean for its count.
type slots struct {
	tg            *model.TaskGroup
	live          []*model.Allocation // run, or will; hold a place
	kept          []*model.Allocation // ended, but hold their place: done, or not to be replaced (yet)
	leaving       []*leaver           // to be replaced
	canaries      []*model.Allocation // of the current deployment, beside the count
	oldCanaries   []*model.Allocation // of a version that was given up
	movedCanaries []*model.Allocation // stopped because they migrate; the next canaries take their places
	failedCanary  []*model.Allocation // to be replaced now, within the deployment's progress deadline
}

type leaver struct {
	alloc        *model.Allocation
	desc         string
	clientStatus string
	reschedule   bool
	vacant       bool // nothing to stop
	drop         bool // surplus: stop without replacement
}

func byGroup(allocs []*model.Allocation) map[string][]*model.Allocation {
	m := map[string][]*model.Allocation{}
	for _, a := range allocs {
		m[a.TaskGroup] = append(m[a.TaskGroup], a)
	}
	return m
}

func mapKeys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

func (r *run) sort(tg *model.TaskGroup, allocs []*model.Allocation) *slots {
	s := &slots{tg: tg}
	allocs = slices.Clone(allocs)
	slices.SortFunc(allocs, func(a, b *model.Allocation) int {
		return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	rivals := r.rivals(allocs)
	for _, a := range allocs {
		switch as := rivals[r.placeOf(a)]; {
		case a.ServerTerminalStatus():
			r.sortHistory(s, a)
		case len(as) > 0 && as[0] == a:
			r.reunite(s, as)
		case len(as) > 0: // decided with the oldest
		default:
			r.sortOne(s, a)
		}
	}
	return s
}

// sortHistory: what shall end holds no place, unless it is lost and not to be replaced.
func (r *run) sortHistory(s *slots, a *model.Allocation) {
	if r.holdsThoughLost(s.tg, a) {
		s.kept = append(s.kept, a)
		r.counts(a.TaskGroup).Ignore++
		return
	}
	r.bury(a)
}

// sortOne sorts an alloc that has its place for itself.
func (r *run) sortOne(s *slots, a *model.Allocation) {
	if a.ClientTerminalStatus() {
		r.sortEnded(s, a)
	} else {
		r.sortRunning(s, a)
	}
}

// done reports whether the work of a batch alloc is done.
func (r *run) done(a *model.Allocation) bool {
	return r.Job.Type == model.JobTypeBatch && a.ClientStatus == model.AllocClientStatusComplete
}

// outdated reports whether the alloc runs what the job has no more.
func (r *run) outdated(a *model.Allocation) bool {
	return a.JobVersion != r.Job.Version && !SameRuntime(r.jobOf(a), r.Job, a.TaskGroup)
}

func (r *run) sortEnded(s *slots, a *model.Allocation) {
	outdated := r.givenUp(a)
	switch {
	case a.ClientStatus == model.AllocClientStatusComplete:
		if r.done(a) && !outdated {
			s.kept = append(s.kept, a)
			r.counts(a.TaskGroup).Ignore++
		}
	case a.ClientStatus == model.AllocClientStatusLost:
		s.leaving = append(s.leaving, &leaver{alloc: a, vacant: true})
	case outdated:
		// the new version has its own tries: the place is free
	case r.isCanary(a):
		r.sortFailedCanary(s, a)
	case r.retryNow(s.tg, a):
		s.leaving = append(s.leaving, &leaver{alloc: a, desc: DescRescheduled, reschedule: true})
	default:
		s.kept = append(s.kept, a)
		r.counts(a.TaskGroup).Ignore++
	}
}

// retryNow reports whether a failed alloc is replaced now. One that is to be
// replaced later gets a follow-up evaluation.
func (r *run) retryNow(tg *model.TaskGroup, a *model.Allocation) bool {
	if a.DesiredTransition.ShouldForceReschedule() {
		return true
	}
	at, ok := NextReschedule(tg.ReschedulePolicy, a)
	if ok && !at.After(r.Now) {
		return !r.heldByDeployment(a)
	}
	if ok && a.FollowupEvalID == "" {
		r.res.Changed = append(r.res.Changed, model.AllocChange{
			Kind: model.AllocSetFollowUp, AllocID: a.ID,
			FollowupEvalID: r.followUp(at, model.EvalTriggerAllocReschedule, DescFollowUp),
		})
		r.counts(a.TaskGroup).RescheduleLater++
	}
	return false
}

// sortFailedCanary has a canary replaced by its reschedule policy as long as its
// deployment runs. When the progress deadline ends that, no canary is left.
func (r *run) sortFailedCanary(s *slots, a *model.Allocation) {
	switch {
	case !r.ofThisVersion(r.Deployment) || r.Deployment.ID != a.DeploymentID || !r.Deployment.Active():
		// history
	case r.Deployment.Status != model.DeploymentStatusPaused && r.retryNow(s.tg, a):
		s.failedCanary = append(s.failedCanary, a)
	default:
		s.canaries = append(s.canaries, a)
		r.counts(a.TaskGroup).Ignore++
	}
}

// heldByDeployment reports whether a failed alloc is not replaced because its
// deployment fails with it: a group without progress deadline fails at the first failure.
func (r *run) heldByDeployment(a *model.Allocation) bool {
	d := r.Deployment
	if !d.Active() || d.ID != a.DeploymentID || a.DesiredTransition.ShouldReschedule() {
		return false
	}
	ds := d.TaskGroups[a.TaskGroup]
	return ds != nil && ds.ProgressDeadline == 0
}

// followUp returns the id of the evaluation at a time; those within 5 s share one.
func (r *run) followUp(at time.Time, trigger, desc string) string {
	for i := range r.res.FollowUps {
		f := &r.res.FollowUps[i]
		if d := at.Sub(f.WaitUntil); f.Trigger == trigger && d.Abs() <= 5*time.Second {
			if at.After(f.WaitUntil) {
				f.WaitUntil = at
			}
			return f.ID
		}
	}
	f := FollowUp{ID: r.NewID(), WaitUntil: at, Trigger: trigger, Desc: desc}
	r.res.FollowUps = append(r.res.FollowUps, f)
	return f.ID
}

func (r *run) sortRunning(s *slots, a *model.Allocation) {
	at := r.reachOf(s.tg, a)
	switch {
	case at != inReach:
		r.sortSilent(s, a, at)
	case r.isCanary(a):
		r.sortCanary(s, a)
	case a.DesiredTransition.ShouldMigrate():
		s.leaving = append(s.leaving, &leaver{alloc: a, desc: DescMigrating})
	default:
		s.live = append(s.live, a)
	}
}

func (r *run) sortCanary(s *slots, a *model.Allocation) {
	d := r.Deployment
	current := r.ofThisVersion(d) && a.DeploymentID == d.ID && d.Status != model.DeploymentStatusFailed
	if !current {
		s.oldCanaries = append(s.oldCanaries, a)
		return
	}
	if a.DesiredTransition.ShouldMigrate() {
		r.stop(a, DescMigrating, "")
		s.movedCanaries = append(s.movedCanaries, a)
		return
	}
	s.canaries = append(s.canaries, a)
	r.counts(a.TaskGroup).Ignore++
}

// held returns how many places of the count are taken.
func (s *slots) held() int {
	n := len(s.live) + len(s.kept)
	for _, l := range s.leaving {
		if !l.drop {
			n++
		}
	}
	return n
}

// dropSurplus stops what exceeds the count: first what would be replaced, then
// what nobody has heard of, then old versions whose name a new one carries, then old versions, then the highest
// indexes; of equals the youngest.
func (s *slots) dropSurplus(r *run, u *model.DesiredUpdates) {
	over := s.held() - s.tg.Count
	for _, l := range s.leaving {
		if over > 0 {
			l.drop = true
			over--
		}
	}
	s.kept = slices.DeleteFunc(s.kept, func(a *model.Allocation) bool {
		if over <= 0 || a.ClientStatus != model.AllocClientStatusUnknown {
			return false
		}
		over--
		r.stop(a, DescNotNeeded, "")
		u.Stop++
		return true
	})
	if over <= 0 {
		return
	}
	newNames := map[string]bool{}
	seen := map[string]int{}
	for _, a := range s.live {
		newNames[a.Name] = newNames[a.Name] || a.JobVersion == r.Job.Version
		seen[a.Name]++
	}
	class := func(a *model.Allocation) int {
		old := a.JobVersion != r.Job.Version
		switch {
		case old && newNames[a.Name]:
			return 0
		case seen[a.Name] > 1 && !old:
			return 1
		case old:
			return 2
		}
		return 3
	}
	order := slices.Clone(s.live)
	slices.SortStableFunc(order, func(a, b *model.Allocation) int {
		return cmp.Or(cmp.Compare(class(a), class(b)), -cmp.Compare(a.Index(), b.Index()), -cmp.Compare(a.CreateIndex, b.CreateIndex))
	})
	gone := map[string]bool{}
	for _, a := range order[:min(over, len(order))] {
		gone[a.ID] = true
		r.stop(a, DescNotNeeded, "")
		u.Stop++
	}
	s.live = slices.DeleteFunc(s.live, func(a *model.Allocation) bool { return gone[a.ID] })
}

// freeNames returns the n lowest names of the group that nobody holds.
func (s *slots) freeNames(job *model.Job, n int) []string {
	taken := map[string]bool{}
	for _, as := range [][]*model.Allocation{s.live, s.kept, s.canaries} {
		for _, a := range as {
			taken[a.Name] = true
		}
	}
	for _, l := range s.leaving {
		taken[l.alloc.Name] = taken[l.alloc.Name] || !l.drop
	}
	names := make([]string, 0, n)
	for i := 0; len(names) < n; i++ {
		if name := model.AllocName(job.ID, s.tg.Name, i); !taken[name] {
			names = append(names, name)
		}
	}
	return names
}

// canaryName returns the name that the i-th canary takes over.
func (s *slots) canaryName(job *model.Job, tg *model.TaskGroup, i int) string {
	return model.AllocName(job.ID, tg.Name, i)
}

// updates are the live allocs of older versions by how they get to the new one.
type updates struct{ destructive []*model.Allocation }

// updateInPlace lets an alloc run on under the job's newest version.
func (r *run) updateInPlace(tg *model.TaskGroup, a *model.Allocation) {
	r.res.Changed = append(r.res.Changed, model.AllocChange{
		Kind: model.AllocUpdateInPlace, AllocID: a.ID, JobVersion: r.Job.Version, DeploymentID: r.join(tg),
	})
}

// planUpdates updates in place what can be and returns the rest.
func (s *slots) planUpdates(r *run, u *model.DesiredUpdates) *updates {
	up := &updates{}
	for _, a := range s.live {
		switch {
		case a.JobVersion == r.Job.Version:
			u.Ignore++
		case !SameRuntime(r.jobOf(a), r.Job, a.TaskGroup) || !r.Feasible(s.tg, r.Node(a.NodeID)):
			up.destructive = append(up.destructive, a)
		default:
			r.updateInPlace(s.tg, a)
			u.InPlaceUpdate++
		}
	}
	return up
}
