// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import "github.com/drover-project/drover/core/model"

// jobOf returns the version of the job that an alloc runs, or nil.
func (r *run) jobOf(a *model.Allocation) *model.Job {
	if a.JobVersion == r.Job.Version {
		return r.Job
	}
	return r.Version(a.JobVersion)
}

// givenUp reports whether an alloc that ended says nothing about the newest
// version: what it ran is not what runs now, or the job was stopped or ran
// something else in between. Registered again, the same specification has tries
// of its own, and batch work is done again.
func (r *run) givenUp(a *model.Allocation) bool {
	return a.JobVersion != r.Job.Version && a.JobVersion < r.unchangedSince(a.TaskGroup, a.JobVersion)
}

// unchangedSince returns the oldest version, not older than floor, from which on
// the group has run as it does now. Versions that are not kept change nothing.
func (r *run) unchangedSince(group string, floor uint64) uint64 {
	c := r.unchanged[group]
	if c == nil {
		c = &unchanged{since: r.Job.Version}
		if r.unchanged == nil {
			r.unchanged = map[string]*unchanged{}
		}
		r.unchanged[group] = c
	}
	for !c.ended && c.since > floor {
		older := r.Version(c.since - 1)
		if older != nil && (older.Stop || !SameRuntime(older, r.Job, group)) {
			c.ended = true
			break
		}
		c.since--
	}
	return c.since
}

// unchanged is how far back a group's specification is known to be the same.
type unchanged struct {
	since uint64
	ended bool // the version before since differs
}
