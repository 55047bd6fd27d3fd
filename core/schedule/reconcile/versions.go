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

// givenUp reports whether an ended alloc is irrelevant for the newest version: it ran
// another specification, or the job was stopped or ran another specification in
// between. If the same specification is registered again, it has new attempts, and
// batch work is repeated.
func (r *run) givenUp(a *model.Allocation) bool {
	return a.JobVersion < r.unchangedSince(a.TaskGroup, a.JobVersion)
}

// unchangedSince returns the oldest version, not older than floor, since which the
// group's specification has not changed. Versions that are no longer kept are assumed
// unchanged.
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

// unchanged says since which version a group's specification is known to be the same.
type unchanged struct {
	since uint64
	ended bool // the version before since differs
}
