// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// slots classifies the allocs of one group by their effect on its count.
type slots struct {
	tg            *model.TaskGroup
	hold          *model.Hold         // what holds back the newest version, or nil
	live          []*model.Allocation // running or starting; hold a place
	kept          []*model.Allocation // ended, but hold a place: successful, or not to be replaced (yet)
	leaving       []*leaver           // to be replaced
	canaries      []*model.Allocation // canaries of the current deployment, in addition to the count
	oldCanaries   []*model.Allocation // canaries of a superseded version
	movedCanaries []*model.Allocation // they migrate or are out of reach; the next canaries replace them
	failedCanary  []*model.Allocation // to be replaced now, within the deployment's progress deadline
	// contested has the allocs that hold a place for which a replacement of them, or a promoted
	// canary, which is out of reach, may come back. They are not updated: the update would be a second
	// successor, of which the replacement knows nothing.
	contested map[string]bool
	// beside has, by the alloc that holds a place, those that claim it too and are not
	// counted: if the place is not needed any more, they end with it.
	beside map[string][]*model.Allocation

	taken       map[string]bool // names that are not free; nil: not known yet
	lowest      int             // names below this index are not free any more
	canaryNames map[string]bool // names that promoted canaries have; nil: not known yet
}

type leaver struct {
	alloc        *model.Allocation
	desc         string
	clientStatus string
	reschedule   bool
	vacant       bool // there is nothing to stop
	drop         bool // surplus: stop without replacement
}

func byGroup(allocs []*model.Allocation) map[string][]*model.Allocation {
	m := map[string][]*model.Allocation{}
	for _, a := range allocs {
		m[a.TaskGroup] = append(m[a.TaskGroup], a)
	}
	return m
}

func (r *run) sort(tg *model.TaskGroup, allocs []*model.Allocation) *slots {
	s := &slots{tg: tg, contested: map[string]bool{}, beside: map[string][]*model.Allocation{}}
	slices.SortFunc(allocs, func(a, b *model.Allocation) int {
		return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(a.CreateIndex, b.CreateIndex), cmp.Compare(a.ID, b.ID))
	})
	rivals := r.rivals(allocs)
	newest, filled := map[place]*model.Allocation{}, map[place]bool{}
	for _, a := range allocs {
		p := r.placeOf(a)
		newest[p], filled[p] = a, filled[p] || !a.ServerTerminalStatus()
	}
	for _, a := range allocs {
		switch as := rivals[r.placeOf(a)]; {
		case a.ServerTerminalStatus():
			p := r.placeOf(a)
			r.sortHistory(s, a, newest[p] == a, filled[p])
		case len(as) > 0 && as[0] == a:
			r.reunite(s, as)
		case len(as) > 0: // reunite has decided about it, together with the oldest alloc of its place
		default:
			r.sortOne(s, a)
		}
	}
	return s
}

// sortHistory classifies an alloc that should end: it holds no place, unless it is
// lost and must not be replaced, or still waits for its replacement. If it is not the newest
// of its place, another alloc got the place while the node was in reach. filled says that
// an alloc which should not end has the place.
func (r *run) sortHistory(s *slots, a *model.Allocation, newest, filled bool) {
	switch {
	case newest && r.holdsThoughLost(s.tg, a):
		r.counts(a.TaskGroup).Ignore++
		if !r.isCanary(a) {
			s.kept = append(s.kept, a)
		} else if r.canaryNow(a) {
			s.canaries = append(s.canaries, a)
		}
		return
	case newest && !filled && r.owed(s.tg, a):
		s.leaving = append(s.leaving, &leaver{alloc: a, reschedule: wasRescheduled(a), vacant: true})
	}
	r.bury(a)
}

// sortOne classifies an alloc without rivals for its place.
func (r *run) sortOne(s *slots, a *model.Allocation) {
	if a.ClientTerminalStatus() {
		r.sortEnded(s, a)
	} else {
		r.sortRunning(s, a)
	}
}

// done reports whether a batch alloc has completed successfully.
func (r *run) done(a *model.Allocation) bool {
	return r.Job.Type == model.JobTypeBatch && a.ClientStatus == model.AllocClientStatusComplete
}

// outdated reports whether the alloc runs a specification that the job no longer has.
func (r *run) outdated(a *model.Allocation) bool {
	return !SameRuntime(r.jobOf(a), r.Job, a.TaskGroup)
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
		// the new version has its own attempts: the place is free
	case r.isCanary(a):
		r.sortFailedCanary(s, a)
	case r.retryNow(s.tg, a):
		s.leaving = append(s.leaving, &leaver{alloc: a, desc: rescheduled(a), reschedule: true})
	default:
		s.kept = append(s.kept, a)
		r.counts(a.TaskGroup).Ignore++
	}
}

// retryNow reports whether a failed alloc is replaced now. If it is due later, a
// follow-up evaluation is created.
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

// sortFailedCanary replaces a failed canary according to its reschedule policy while
// its deployment runs. When the deployment fails at its progress deadline, its
// canaries are stopped.
func (r *run) sortFailedCanary(s *slots, a *model.Allocation) {
	switch {
	case !r.ofThisVersion(r.Deployment) || r.Deployment.ID != a.DeploymentID || !r.Deployment.Active():
		// part of the history only
	case r.Deployment.Status != model.DeploymentStatusPaused && r.retryNow(s.tg, a):
		s.failedCanary = append(s.failedCanary, a)
	default:
		s.canaries = append(s.canaries, a)
		r.counts(a.TaskGroup).Ignore++
	}
}

// heldByDeployment reports whether a failed alloc is not replaced because its
// deployment fails with it: a group without progress deadline fails at the first
// failure.
func (r *run) heldByDeployment(a *model.Allocation) bool {
	d := r.Deployment
	if !d.Active() || d.ID != a.DeploymentID || a.DesiredTransition.ShouldReschedule() {
		return false
	}
	ds := d.TaskGroups[a.TaskGroup]
	return ds != nil && ds.ProgressDeadline == 0
}

// followUp returns the id of the evaluation at a time. Evaluations within 5 s of each
// other are shared.
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
	case r.isUnhealthy(a) && r.retryNow(s.tg, a):
		s.leaving = append(s.leaving, &leaver{alloc: a, desc: rescheduled(a), reschedule: true})
	default:
		s.live = append(s.live, a)
	}
}

// isUnhealthy reports whether a running alloc is unhealthy in the roll-out that is under
// way. It stays so, and holds the roll-out up: it is replaced as a failed one is.
func (r *run) isUnhealthy(a *model.Allocation) bool {
	d := r.Deployment
	return a.DeploymentStatus.IsUnhealthy() && a.DesiredTransition.ShouldReschedule() && a.NextAllocation == "" &&
		r.ofThisVersion(d) && d.ID == a.DeploymentID && d.Status == model.DeploymentStatusRunning
}

// rescheduled says why an alloc is replaced by its reschedule policy.
func rescheduled(a *model.Allocation) string {
	if a.ClientTerminalStatus() {
		return DescRescheduled
	}
	return DescUnhealthy
}

// canaryNow reports whether a canary belongs to the roll-out of the newest version.
func (r *run) canaryNow(a *model.Allocation) bool {
	d := r.Deployment
	return r.ofThisVersion(d) && a.DeploymentID == d.ID && d.Status != model.DeploymentStatusFailed
}

func (r *run) sortCanary(s *slots, a *model.Allocation) {
	if !r.canaryNow(a) {
		s.oldCanaries = append(s.oldCanaries, a)
		return
	}
	if a.DesiredTransition.ShouldMigrate() {
		r.stop(a, DescMigrating, "")
		s.movedCanaries = append(s.movedCanaries, a)
		return
	}
	if r.isUnhealthy(a) && r.retryNow(s.tg, a) {
		s.failedCanary = append(s.failedCanary, a)
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

// dropSurplus stops allocs above the count, in this order: failed allocs that hold a
// place, allocs that would be replaced, unknown allocs, old versions whose name a new alloc
// has, all but the oldest of a name, other old versions, the highest indexes; among equals the
// newest.
func (s *slots) dropSurplus(r *run, u *model.DesiredUpdates) {
	over := s.held() - s.tg.Count - s.share(r)
	dropKept := func(status string) {
		s.kept = slices.DeleteFunc(s.kept, func(a *model.Allocation) bool {
			if over <= 0 || a.ClientStatus != status {
				return false
			}
			over--
			r.stop(a, DescNotNeeded, "")
			u.Stop++
			s.end(r, a)
			return true
		})
	}
	dropKept(model.AllocClientStatusFailed)
	for _, l := range s.leaving {
		if over > 0 {
			l.drop = true
			over--
			s.end(r, l.alloc)
		}
	}
	dropKept(model.AllocClientStatusUnknown)
	if over <= 0 {
		return
	}
	type named struct {
		name string
		old  bool
	}
	key := func(a *model.Allocation) named { return named{a.Name, a.JobVersion != r.Job.Version} }
	first := map[named]*model.Allocation{} // the oldest alloc of a name
	for _, a := range s.live {
		if f := first[key(a)]; f == nil || a.CreateIndex < f.CreateIndex {
			first[key(a)] = a
		}
	}
	class := func(a *model.Allocation) int {
		switch k := key(a); {
		case k.old && first[named{name: a.Name}] != nil:
			return 0
		case first[k] != a:
			return 1
		case k.old:
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
		s.end(r, a)
	}
	s.live = slices.DeleteFunc(s.live, func(a *model.Allocation) bool { return gone[a.ID] })
}

// share lets an outdated alloc run on beside the promoted canary of its name as long as that
// one is out of reach and nothing replaces it. To which of them the place belongs is open until
// the canary is heard of. It returns the number of such pairs.
func (s *slots) share(r *run) (pairs int) {
	for _, c := range s.kept {
		if c.ClientTerminalStatus() && c.ClientStatus != model.AllocClientStatusLost || !r.wasCanary(c) {
			continue
		}
		i := slices.IndexFunc(s.live, func(a *model.Allocation) bool { return a.Name == c.Name && a.JobVersion != r.Job.Version })
		if i >= 0 {
			s.contested[s.live[i].ID] = true
			pairs++
		}
	}
	return pairs
}

// end stops the allocs that claim the place of one that is not needed any more.
func (s *slots) end(r *run, holder *model.Allocation) {
	for _, a := range s.beside[holder.ID] {
		r.counts(a.TaskGroup).Ignore--
		r.stopIfLive(a, DescNotNeeded)
	}
}

// freeNames returns the n lowest names of the group that are free and were not returned
// before.
func (s *slots) freeNames(job *model.Job, n int) []string {
	if s.taken == nil {
		s.taken = map[string]bool{}
		for _, as := range [][]*model.Allocation{s.live, s.kept, s.canaries} {
			for _, a := range as {
				s.taken[a.Name] = true
			}
		}
		for _, l := range s.leaving {
			s.taken[l.alloc.Name] = s.taken[l.alloc.Name] || !l.drop
		}
	}
	names := make([]string, 0, n)
	for ; len(names) < n; s.lowest++ {
		if name := model.AllocName(job.ID, s.tg.Name, s.lowest); !s.taken[name] {
			names = append(names, name)
		}
	}
	return names
}

// nameOfUpdate returns the name of the alloc that takes the place of an outdated one: that
// of the outdated one, unless an alloc of the new version has it, which was a canary.
func (r *run) nameOfUpdate(s *slots, a *model.Allocation) string {
	if s.canaryNames == nil {
		s.canaryNames = map[string]bool{}
		for _, b := range s.live {
			s.canaryNames[b.Name] = s.canaryNames[b.Name] || b.JobVersion == r.Job.Version && r.wasCanary(b)
		}
	}
	if s.canaryNames[a.Name] {
		return s.freeNames(r.Job, 1)[0]
	}
	return a.Name
}

// wasCanary reports whether an alloc is a canary of the current deployment, promoted or not.
func (r *run) wasCanary(a *model.Allocation) bool {
	if r.current == nil || r.current.TaskGroups[a.TaskGroup] == nil {
		return false
	}
	return slices.Contains(r.current.TaskGroups[a.TaskGroup].PlacedCanaries, a.ID)
}

// freeCanaryNames returns the n lowest names of the group that no canary has.
func (s *slots) freeCanaryNames(job *model.Job, n int) []string {
	taken := map[string]bool{}
	for _, as := range [][]*model.Allocation{s.canaries, s.movedCanaries, s.failedCanary} {
		for _, a := range as {
			taken[a.Name] = true
		}
	}
	names := make([]string, 0, n)
	for i := 0; len(names) < n; i++ {
		if name := model.AllocName(job.ID, s.tg.Name, i); !taken[name] {
			names = append(names, name)
		}
	}
	return names
}

// resize lets an alloc continue under the job's newest version with other resources. It
// reports whether that is possible. Such an update rolls out as a destructive one does,
// with max_parallel and canaries, since less memory may be too little.
func (r *run) resize(tg *model.TaskGroup, a *model.Allocation) bool {
	if tg.Update == nil || tg.Update.Resources != model.UpdateInPlace || !sameButResources(r.jobOf(a), r.Job, tg.Name) || !r.Feasible(tg, r.Node(a.NodeID)) {
		return false
	}
	resources := r.Resize(tg, a)
	if resources == nil {
		return false
	}
	r.updateInPlace(tg, a)
	r.res.Changed[len(r.res.Changed)-1].Resources = resources
	return true
}

// updateInPlace lets an alloc continue under the job's newest version.
func (r *run) updateInPlace(tg *model.TaskGroup, a *model.Allocation) {
	r.res.Changed = append(r.res.Changed, model.AllocChange{
		Kind: model.AllocUpdateInPlace, AllocID: a.ID, JobVersion: r.Job.Version, DeploymentID: r.join(tg),
	})
}

// update updates live allocs in place where that is possible, and returns the others that are
// of an older version: they have to be replaced.
func (s *slots) update(r *run, u *model.DesiredUpdates) (outdated []*model.Allocation) {
	for _, a := range s.live {
		switch {
		case a.JobVersion == r.Job.Version:
			u.Ignore++
		case !SameRuntime(r.jobOf(a), r.Job, a.TaskGroup) || !r.MayStay(s.tg, r.Node(a.NodeID)):
			outdated = append(outdated, a)
		default:
			r.updateInPlace(s.tg, a)
			u.InPlaceUpdate++
		}
	}
	return outdated
}
