// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import "github.com/drover-project/drover/core/model"

// An alloc that had to end is stopped even if no node has room for its replacement. What is
// placed later in its place is still its replacement: it gets the data of a sticky disk, and
// keeps the history of attempts, just as if there had been room at once.

// vacate records an alloc that was stopped and is the newest of its place.
func (s *slots) vacate(a *model.Allocation) {
	if s.vacated == nil {
		s.vacated = map[string]*model.Allocation{}
	}
	s.vacated[a.Name] = a
}

// owed returns the alloc if it was stopped to be replaced and nothing has replaced it, or
// else nil. It also reports whether it is replaced because it failed.
func (r *run) owed(a *model.Allocation) (previous *model.Allocation, failed bool) {
	if a == nil || a.NextAllocation != "" || r.stoppedSince(a) {
		return nil, false
	}
	if a.DesiredStatus == model.AllocDesiredStatusEvict {
		return a, false
	}
	switch a.DesiredDescription {
	case DescMigrating, DescLost:
		return a, false
	case DescRescheduled, DescUnhealthy:
		if !r.givenUp(a) { // otherwise the new version has its own attempts
			return a, true
		}
	}
	return nil, false
}

// stoppedSince reports whether the job was stopped after the version that an alloc ran.
func (r *run) stoppedSince(a *model.Allocation) bool {
	for v := r.Job.Version; v > a.JobVersion; v-- {
		older := r.Version(v - 1)
		if older == nil {
			return false
		}
		if older.Stop {
			return true
		}
	}
	return false
}
