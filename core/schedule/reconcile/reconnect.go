// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
)

// reunite decides, for every alloc whose node is back and whose replacement
// lives, which of the two stays, as the group's disconnect block says.
func (r *run) reunite(s *slots, allocs []*model.Allocation, u *model.DesiredUpdates) {
	var gone map[string]bool
	var byID map[string]*model.Allocation
	live := make(map[string]bool, len(s.live))
	for _, a := range s.live {
		live[a.ID] = true
	}
	for _, a := range s.live {
		if a.NextAllocation == "" || gone[a.ID] {
			continue
		}
		if byID == nil {
			byID, gone = make(map[string]*model.Allocation, len(allocs)), map[string]bool{}
			for _, x := range allocs {
				byID[x.ID] = x
			}
		}
		heir := successor(a, byID, live)
		if heir == nil || gone[heir.ID] {
			continue
		}
		loser := heir
		if !r.keepsOriginal(s.tg, a, heir) {
			loser = a
		}
		gone[loser.ID] = true
		r.stop(loser, DescReconnected, "")
		u.Stop++
	}
	if len(gone) > 0 {
		s.live = slices.DeleteFunc(s.live, func(a *model.Allocation) bool { return gone[a.ID] })
	}
}

// successor returns the live alloc that took a's place, perhaps after others
// that failed.
func successor(a *model.Allocation, byID map[string]*model.Allocation, live map[string]bool) *model.Allocation {
	for range len(byID) { // a chain has no more links than there are allocs
		next := byID[a.NextAllocation]
		if next == nil || live[next.ID] {
			return next
		}
		a = next
	}
	return nil
}

// keepsOriginal reports whether the alloc that was out of reach stays and its heir goes.
func (r *run) keepsOriginal(tg *model.TaskGroup, original, heir *model.Allocation) bool {
	if original.JobVersion != heir.JobVersion {
		return original.JobVersion == r.Job.Version // an outdated one would be replaced anyway
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
