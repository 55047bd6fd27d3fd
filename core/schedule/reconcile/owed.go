// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import "github.com/drover-project/drover/core/model"

// An alloc that had to end is stopped even if no node has room for its replacement. What is
// placed later in its place is still its replacement: it gets the data of a sticky disk, and
// keeps the history of attempts, just as if there had been room at once.

// WasToBeReplaced reports whether an alloc was asked to end so that another takes its place,
// and none has: no node had room for it.
func WasToBeReplaced(a *model.Allocation) bool {
	if a.NextAllocation != "" || !a.ServerTerminalStatus() {
		return false
	}
	switch a.DesiredDescription {
	case DescLost, DescMigrating:
		return true
	}
	return wasRescheduled(a) || a.DesiredStatus == model.AllocDesiredStatusEvict
}

// wasRescheduled reports whether an alloc was asked to end because its reschedule policy allows
// another try.
func wasRescheduled(a *model.Allocation) bool {
	return a.DesiredDescription == DescRescheduled || a.DesiredDescription == DescUnhealthy
}

// owed reports whether an alloc that should end is still owed its replacement. What ran once
// is, whatever has become of the roll-out of its version, unless the job was stopped since or
// its group does not replace what is lost. A try that was due is not owed to a version that is
// given up, unless the roll-out of the newest one is halted: that one has its own tries.
func (r *run) owed(tg *model.TaskGroup, a *model.Allocation) bool {
	if !WasToBeReplaced(a) || r.isCanary(a) || r.awaited(tg, a) || r.stoppedSince(a) {
		return false
	}
	return !wasRescheduled(a) || !r.givenUp(a) || r.halted()
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
