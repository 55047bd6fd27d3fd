// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// place is what one alloc of a group holds.
type place struct {
	name   string
	canary bool
}

func (r *run) placeOf(a *model.Allocation) place { return place{a.Name, r.isCanary(a)} }

// rivals returns the allocs of which more than one may hold a place: one that was
// replaced while it was out of reach, and what came after it, oldest first.
// allocs are ordered by age within a name.
func (r *run) rivals(allocs []*model.Allocation) map[place][]*model.Allocation {
	var out map[place][]*model.Allocation
	for _, a := range allocs {
		if a.NextAllocation != "" && !a.ServerTerminalStatus() {
			if out == nil {
				out = map[place][]*model.Allocation{}
			}
			out[r.placeOf(a)] = nil
		}
	}
	if out == nil {
		return nil
	}
	for _, a := range allocs {
		if _, ok := out[r.placeOf(a)]; ok && !a.ServerTerminalStatus() {
			out[r.placeOf(a)] = append(out[r.placeOf(a)], a)
		}
	}
	maps.DeleteFunc(out, func(_ place, as []*model.Allocation) bool { return len(as) < 2 })
	return out
}

// reunite decides between the rivals for one place, oldest first. Work that is done
// holds the place, else what runs, else what came last. Who is unknown has no say
// until its node has reported it, and costs nobody the place.
func (r *run) reunite(s *slots, as []*model.Allocation) {
	holder := as[len(as)-1]
	var running []*model.Allocation
	at := make(map[string]reach, len(as))
	for _, a := range as {
		if !a.ClientTerminalStatus() {
			if at[a.ID] = r.reachOf(s.tg, a); at[a.ID] == inReach {
				running = append(running, a)
			}
		}
	}
	done := slices.IndexFunc(as, func(a *model.Allocation) bool { return r.done(a) && !r.givenUp(a) })
	switch {
	case done >= 0:
		holder = as[done]
	case len(running) > 0:
		holder = r.choose(s, running)
	}
	for _, a := range as {
		switch {
		case a == holder:
			r.sortOne(s, a)
		case a.ClientTerminalStatus():
			if !r.done(a) && a.NextAllocation == "" {
				r.dismiss(a) // its failure counts no more
			}
		case at[a.ID] == lost:
			r.stop(a, DescLost, model.AllocClientStatusLost)
			r.counts(a.TaskGroup).Stop++
		case at[a.ID] == parted:
			r.part(s.tg, a)
		case at[a.ID] == inReach && (done >= 0 || r.loses(s.tg, a, running)):
			r.dismiss(a)
		default:
			r.counts(a.TaskGroup).Ignore++ // beside the count
		}
	}
}

// dismiss ends an alloc whose place another one has.
func (r *run) dismiss(a *model.Allocation) {
	r.stop(a, DescReconnected, "")
	r.counts(a.TaskGroup).Stop++
	r.counts(a.TaskGroup).Reconnect++
}

// choose returns which of the allocs that run, oldest first, has the place.
func (r *run) choose(s *slots, running []*model.Allocation) *model.Allocation {
	i := slices.IndexFunc(running, func(a *model.Allocation) bool { return !r.loses(s.tg, a, running) })
	for j := i + 1; j < len(running); j++ {
		if !r.loses(s.tg, running[j], running) {
			i = j // not decided yet: the youngest has it meanwhile
		}
	}
	return running[max(i, 0)]
}

// loses reports whether one of the others takes the place of a.
func (r *run) loses(tg *model.TaskGroup, a *model.Allocation, others []*model.Allocation) bool {
	before := true
	for _, b := range others {
		switch {
		case a == b:
			before = false
		case before && r.loser(tg, b, a) == a, !before && r.loser(tg, a, b) == a:
			return true
		}
	}
	return false
}

// loser returns which of two allocs goes, or nil while that cannot be said: the
// one that shall stay does not run yet. An original that does not run, since its
// machine was restarted, yields to a replacement that does.
func (r *run) loser(tg *model.TaskGroup, original, heir *model.Allocation) *model.Allocation {
	leaves := original.DesiredTransition.ShouldMigrate()
	switch keeps := r.keepsOriginal(tg, original, heir); {
	case leaves != heir.DesiredTransition.ShouldMigrate():
		if leaves {
			return original
		}
		return heir
	case keeps && original.Serves(tg):
		return heir
	case heir.Serves(tg):
		return original
	}
	return nil
}

// keepsOriginal reports whether the alloc that was out of reach is the one to stay.
func (r *run) keepsOriginal(tg *model.TaskGroup, original, heir *model.Allocation) bool {
	if old := r.outdated(original); old != r.outdated(heir) {
		return !old // an outdated one would be replaced anyway
	}
	if heir.DeploymentStatus.IsUnhealthy() {
		return true
	}
	switch reconcileBy(tg) {
	case model.ReconcileKeepOriginal:
		return true
	case model.ReconcileKeepReplacement:
		return false
	case model.ReconcileLongestRunning:
		return !runningSince(heir).Before(runningSince(original))
	}
	return scoreOf(original) >= scoreOf(heir)
}

func reconcileBy(tg *model.TaskGroup) string {
	if tg.Disconnect == nil || tg.Disconnect.Reconcile == "" {
		return model.ReconcileBestScore
	}
	return tg.Disconnect.Reconcile
}

// runningSince is when the last of the tasks that run was started: the whole
// alloc has run since then. An alloc without a running task runs since the end of time.
func runningSince(a *model.Allocation) time.Time {
	var since time.Time
	for _, t := range a.TaskStates {
		if t.State == model.TaskStateRunning && t.StartedAt != nil && t.StartedAt.After(since) {
			since = *t.StartedAt
		}
	}
	if since.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return since
}

// scoreOf is how good the alloc's node was for it when it was placed there.
func scoreOf(a *model.Allocation) float64 {
	if a.Metrics != nil {
		for _, s := range a.Metrics.ScoreMetaData {
			if s.NodeID == a.NodeID {
				return s.NormScore
			}
		}
	}
	return 0
}
