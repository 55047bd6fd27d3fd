// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// place identifies a place of a group's count that one alloc holds.
type place struct {
	name   string
	canary bool
}

func (r *run) placeOf(a *model.Allocation) place { return place{a.Name, r.isCanary(a)} }

// rivals returns, by place, those that claim it where an alloc was replaced while it was
// unreachable: that alloc and its replacements, oldest first. allocs must be ordered by age
// within a name.
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
	return out
}

// reunite decides which of the rivals, oldest first, keeps the place. Completed work
// keeps it, otherwise a running alloc, otherwise the newest. An unknown alloc does not
// count until its node has reported it, and takes the place from no other.
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
	younger := false // than the holder
	for _, a := range as {
		switch {
		case a == holder:
			younger = true
			r.sortOne(s, a)
		case a.ClientTerminalStatus():
			if !r.done(a) && a.NextAllocation == "" {
				r.dismiss(a) // its failure does not count any more
			}
		case at[a.ID] == lost:
			r.stop(a, DescLost, model.AllocClientStatusLost)
			r.counts(a.TaskGroup).Stop++
		case at[a.ID] == parted:
			s.contested[holder.ID] = s.contested[holder.ID] || younger
			r.part(s.tg, a)
		case at[a.ID] == inReach && (done >= 0 || r.loses(s.tg, a, running)):
			r.dismiss(a)
		default:
			s.contested[holder.ID] = s.contested[holder.ID] || younger
			s.beside[holder.ID] = append(s.beside[holder.ID], a)
			r.counts(a.TaskGroup).Ignore++ // in addition to the count
		}
	}
}

// dismiss stops an alloc whose place another alloc has.
func (r *run) dismiss(a *model.Allocation) {
	r.stop(a, DescReconnected, "")
	r.counts(a.TaskGroup).Stop++
	r.counts(a.TaskGroup).Reconnect++
}

// choose returns which of the running allocs, oldest first, keeps the place.
func (r *run) choose(s *slots, running []*model.Allocation) *model.Allocation {
	holder := running[0]
	for _, a := range running {
		if !r.loses(s.tg, a, running) {
			holder = a // if it is undecided, the newest keeps the place for now
		}
	}
	return holder
}

// loses reports whether a loses its place to one of the others.
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

// loser returns which of two allocs must stop, or nil while the one that should stay
// does not run yet. An original that does not run, because its machine was restarted,
// loses to a replacement that does.
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

// keepsOriginal reports whether the policy keeps the alloc that was unreachable.
func (r *run) keepsOriginal(tg *model.TaskGroup, original, heir *model.Allocation) bool {
	if old := r.outdated(original); old != r.outdated(heir) {
		return !old // an outdated one would be replaced anyway
	}
	if heir.DeploymentStatus.IsUnhealthy() {
		return true
	}
	by := model.ReconcileBestScore
	if tg.Disconnect != nil {
		by = tg.Disconnect.Reconcile
	}
	switch by {
	case model.ReconcileKeepOriginal:
		return true
	case model.ReconcileKeepReplacement:
		return false
	case model.ReconcileLongestRunning:
		return !runningSince(heir).Before(runningSince(original))
	}
	return scoreOf(original) >= scoreOf(heir)
}

// runningSince returns when the last of the running tasks was started: the whole alloc
// has been running since then. Without a running task it returns a time in the far
// future.
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

// scoreOf returns the score of the alloc's node at its placement.
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
