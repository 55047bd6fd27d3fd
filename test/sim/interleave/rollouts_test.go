// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package interleave_test

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
)

// deployments judges what an entry changed of deployments. That they end by their
// deadlines, and that their statuses only go forward, other rules say.
func (r *rules) deployments(before, after *state.View) {
	for d := range after.Deployments() {
		old := before.DeploymentByID(d.ID)
		if old == nil || old == d {
			continue
		}
		for name, g := range d.TaskGroups {
			was := old.TaskGroups[name]
			if was.Promoted && !g.Promoted {
				r.w.brokenf("the promotion of deployment %s was taken back", short(d.ID))
			}
			if n := healthy(before, d, true); !was.Promoted && g.Promoted && n < g.DesiredCanaries {
				r.w.brokenf("deployment %s was promoted with %d of %d canaries healthy", short(d.ID), n, g.DesiredCanaries)
			}
			if n := r.healthyOr(before, d); old.Active() && d.Status == model.DeploymentStatusSuccessful && r.w.typeOf(d.JobID) == model.JobTypeService && n < g.DesiredTotal {
				r.w.brokenf("deployment %s is successful with %d of %d allocs healthy", short(d.ID), n, g.DesiredTotal)
			}
		}
	}
	r.surplus(before, after)
}

// healthy counts the healthy allocs, or canaries, of a deployment.
func healthy(v *state.View, d *model.Deployment, canaries bool) (n int) {
	for _, a := range v.AllocsByDeployment(d.ID) {
		if a.DeploymentStatus.IsHealthy() && !a.TerminalStatus() && (!canaries || a.DeploymentStatus.IsCanary()) {
			n++
		}
	}
	return n
}

// healthyOr counts the healthy allocs of a deployment, and those that were healthy when
// what is being applied was decided.
func (r *rules) healthyOr(v *state.View, d *model.Deployment) (n int) {
	for _, a := range v.AllocsByDeployment(d.ID) {
		if a.DeploymentStatus.IsHealthy() && (!a.TerminalStatus() || a.ModifyIndex > r.w.decided()) {
			n++
		}
	}
	return n
}

// decided returns the index on which what is being applied was decided.
func (w *world) decided() uint64 {
	if w.stale > 0 {
		return w.stale
	}
	return w.planned()
}

// surplus: an entry that places allocs leaves no more of a service job than its count and
// its canaries, unless there were more before. Jobs that wait for unreachable nodes may have
// an alloc and its replacement.
func (r *rules) surplus(before, after *state.View) {
	for _, s := range r.w.jobs {
		job := after.JobByID("default", s.ID)
		if s.Type != model.JobTypeService || s.Disconnect != "none" && s.Disconnect != "prevent_reschedule_on_lost" || job == nil {
			continue
		}
		d := after.LatestDeployment("default", s.ID)
		// The stop of an older canary that was out of reach when it was planned is refused, and
		// decided again, if the canary or its node has changed since.
		back := func(a *model.Allocation) bool {
			n := before.NodeByID(a.NodeID)
			return a.DeploymentStatus.IsCanary() && a.DeploymentID != d.ID && (a.ModifyIndex > r.w.planned() || n != nil && n.ModifyIndex > r.w.planned())
		}
		live := func(v *state.View) (n int) {
			for _, a := range v.AllocsByJob("default", s.ID) {
				if !a.TerminalStatus() && job.Owns(a) && !(d != nil && back(a)) {
					n++
				}
			}
			return n
		}
		most, fresh := job.TaskGroups[0].Count, false
		for _, a := range after.AllocsByJob("default", s.ID) {
			if old := before.AllocByID(a.ID); old == nil && job.Owns(a) {
				fresh = true
				most = max(most, after.JobOf(a).TaskGroups[0].Count) // a plan of the version before
			}
		}
		if d != nil {
			most += d.TaskGroups["g"].DesiredCanaries
		}
		if n := live(after); fresh && n > max(most, live(before)) {
			r.w.brokenf("%d allocs of job %s live, of at most %d", n, s.ID, most)
		}
	}
}

// updated: nothing that runs is stopped for a new version of which the scheduler knew that an
// alloc had failed or was unhealthy. One that is stopped and not replaced does not count, because
// the job does not need it any more.
func (r *rules) updated(before, after *state.View, a *model.Allocation) {
	if a.DesiredDescription != reconcile.DescUpdating {
		return
	}
	d := before.LatestDeployment(a.Namespace, a.JobID)
	job := before.JobByID(a.Namespace, a.JobID)
	if !d.Active() || d.ModifyIndex > r.w.planned() || job == nil || job.Version != d.JobVersion { // or it is for a newer version
		return
	}
	for _, b := range before.AllocsByDeployment(d.ID) {
		known := b.JobVersion == d.JobVersion && !b.ServerTerminalStatus() && b.NextAllocation == "" && b.ModifyIndex <= r.w.planned()
		if bad(b) && known && a.JobVersion != d.JobVersion && !givenUp(after.AllocByID(b.ID)) {
			r.w.brokenf("%s was stopped for version %d, of which %s is unhealthy", short(a.ID), d.JobVersion, short(b.ID))
		}
	}
}

func bad(a *model.Allocation) bool {
	return a.DeploymentStatus.IsUnhealthy() || a.ClientStatus == model.AllocClientStatusFailed
}

// givenUp reports whether an alloc should end and has no replacement.
func givenUp(a *model.Allocation) bool {
	return a.ServerTerminalStatus() && a.NextAllocation == ""
}
