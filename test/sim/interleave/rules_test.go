// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package interleave_test

import (
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

// rules judge every change of the state by the state before it.
type rules struct {
	w          *world
	lifecycles map[string]*model.Lifecycle
}

func newRules(w *world) *rules {
	r := &rules{w: w, lifecycles: map[string]*model.Lifecycle{}}
	for _, l := range model.Lifecycles() {
		r.lifecycles[l.Kind] = l
	}
	return r
}

func (r *rules) check(before, after *state.View, c fsm.Command) {
	if after.Index() <= before.Index() {
		r.w.brokenf("the index went from %d to %d", before.Index(), after.Index())
	}
	for n := range after.Nodes() {
		r.way("node", n.ID, statusOf(before.NodeByID(n.ID), func(n *model.Node) string { return n.Status }), n.Status)
	}
	for e := range after.Evals() {
		r.way("evaluation", e.ID, statusOf(before.EvalByID(e.ID), func(e *model.Evaluation) string { return e.Status }), e.Status)
	}
	for d := range after.Deployments() {
		r.way("deployment", d.ID, statusOf(before.DeploymentByID(d.ID), func(d *model.Deployment) string { return d.Status }), d.Status)
	}
	for a := range after.Allocs() {
		old := before.AllocByID(a.ID)
		if old == a {
			continue
		}
		r.way("allocation", a.ID, statusOf(old, func(a *model.Allocation) string { return a.ClientStatus }), a.ClientStatus)
		r.forward(after, old, a)
		switch job := after.JobOf(a); {
		case job == nil || job.LookupTaskGroup(a.TaskGroup) == nil:
		case old == nil:
			r.placed(before, a, job)
		case !old.ServerTerminalStatus() && a.ServerTerminalStatus():
			r.stopped(before, old, a)
			r.updated(before, after, a)
		}
	}
	r.deployments(before, after)
	r.places(after)
	r.room(before, after)
	for _, b := range invariants.Broken(after) {
		r.w.brokenf("after %T: %s", c, b)
	}
}

func statusOf[T any](x *T, status func(*T) string) string {
	if x == nil {
		return ""
	}
	return status(x)
}

func (r *rules) way(kind, id, from, to string) {
	if !r.lifecycles[kind].Allows(from, to) {
		r.w.brokenf("%s %s goes from %q to %q", kind, short(id), from, to)
	}
}

// forward: what was decided stays decided.
func (r *rules) forward(after *state.View, old, a *model.Allocation) {
	switch {
	case old == nil:
	case old.ServerTerminalStatus() && !a.ServerTerminalStatus():
		r.w.brokenf("the stop of %s was erased", short(a.ID))
	case old.DesiredTransition.ShouldMigrate() && !a.DesiredTransition.ShouldMigrate():
		r.w.brokenf("that %s shall migrate was erased", short(a.ID))
	case old.NextAllocation != "" && a.NextAllocation != old.NextAllocation && after.AllocByID(old.NextAllocation) != nil &&
		!after.AllocByID(old.NextAllocation).TerminalStatus(): // one that has lost the place may have another after it
		r.w.brokenf("%s had the successor %s, and has %s", short(a.ID), short(old.NextAllocation), short(a.NextAllocation))
	}
}

func outOfReach(n *model.Node) bool {
	return n == nil || n.Status == model.NodeStatusDown || n.Status == model.NodeStatusDisconnected
}

// placed judges a new alloc.
func (r *rules) placed(before *state.View, a *model.Allocation, job *model.Job) {
	tg := job.LookupTaskGroup(a.TaskGroup)
	for _, b := range before.AllocsByJob(a.Namespace, a.JobID) {
		if b.Name != a.Name || b.JobVersion != a.JobVersion || !job.Owns(b) || b.DeploymentStatus.IsCanary() != a.DeploymentStatus.IsCanary() {
			continue
		}
		asked := b.DesiredTransition.ShouldMigrate() || b.DesiredTransition.ShouldForceReschedule()
		if job.Type == model.JobTypeBatch && b.ClientStatus == model.AllocClientStatusComplete && !b.ServerTerminalStatus() && !asked {
			r.w.brokenf("batch work %s is done, and %s repeats it", short(b.ID), short(a.ID))
		}
		silent := b.ClientStatus == model.AllocClientStatusUnknown && !b.ServerTerminalStatus() ||
			b.ClientStatus == model.AllocClientStatusLost && b.DesiredDescription == reconcile.DescLost
		n := before.NodeByID(b.NodeID)
		away := outOfReach(n) && (n == nil || n.ModifyIndex <= r.w.planned()) // and was so when it was decided
		if job.Type != model.JobTypeSystem && !replaces(tg) && silent && away && !asked && b.NextAllocation == "" && !olderThanItsPlace(before, b) {
			r.w.brokenf("%s is out of reach and must not be replaced, and %s replaces it", short(b.ID), short(a.ID))
		}
	}
}

// olderThanItsPlace reports whether another alloc got the place of b while b's node was in
// reach.
func olderThanItsPlace(v *state.View, b *model.Allocation) bool {
	for _, c := range v.AllocsByJob(b.Namespace, b.JobID) {
		if c.Name == b.Name && c.CreateIndex > b.CreateIndex {
			return true
		}
	}
	return false
}

// stopped judges the stop of an alloc.
func (r *rules) stopped(before *state.View, old, a *model.Allocation) {
	if a.DesiredDescription != reconcile.DescReconnected || old.ClientTerminalStatus() || old.DesiredTransition.ShouldMigrate() {
		return
	}
	for _, b := range before.AllocsByJob(a.Namespace, a.JobID) {
		if b.ID != a.ID && b.Name == a.Name && !b.ServerTerminalStatus() {
			switch b.ClientStatus {
			case model.AllocClientStatusRunning, model.AllocClientStatusComplete:
				return
			case model.AllocClientStatusFailed:
				if b.ModifyIndex > r.w.planned() { // it failed after the decision
					return
				}
			}
		}
	}
	r.w.brokenf("%s was stopped for another alloc, but none is heard of that does its work", short(a.ID))
}

// planned returns the index on which the plan was made that is being applied.
func (w *world) planned() uint64 {
	for _, f := range w.flights {
		if f.cmd != nil && !f.applied {
			return f.out.Plan.SnapshotIndex
		}
	}
	return 0
}

// places: of a group that does not wait for unreachable nodes, no two allocs hold one
// place.
func (r *rules) places(v *state.View) {
	for _, s := range r.w.jobs {
		if s.Disconnect != "none" && s.Disconnect != "prevent_reschedule_on_lost" || s.Update == "canary" || s.Update == "canary auto_promote" {
			continue
		}
		holder := map[string]string{}
		for _, a := range v.AllocsByJob("default", s.ID) {
			key := a.Name
			if s.Type == model.JobTypeSystem {
				key = a.NodeID
			}
			if job := v.JobByID("default", s.ID); a.TerminalStatus() || job == nil || !job.Owns(a) {
				continue // or of a purged job of the same name
			}
			if other := holder[key]; other != "" {
				r.w.brokenf("%s and %s both hold %s", short(other), short(a.ID), key)
			}
			holder[key] = a.ID
		}
	}
}

// room: no node that got an alloc has more than it can take.
func (r *rules) room(before, after *state.View) {
	for n := range after.Nodes() {
		used, fresh := int64(0), false
		for _, a := range after.AllocsByNode(n.ID) {
			if !a.TerminalStatus() {
				used += a.AllocatedResources.Comparable().CPUShares
				fresh = fresh || a.CreateIndex > before.Index()
			}
		}
		if fresh && used > n.NodeResources.Cpu.CpuShares {
			r.w.brokenf("node %s of %d MHz got so much that it runs %d", n.ID, n.NodeResources.Cpu.CpuShares, used)
		}
	}
}

// ended: once what was due is done, nothing is past its deadline.
func (r *rules) ended() {
	v := r.w.store.View()
	for a := range v.Allocs() {
		job := v.JobByID(a.Namespace, a.JobID)
		if job == nil || !job.Owns(a) || job.LookupTaskGroup(a.TaskGroup) == nil {
			continue
		}
		wait := waits(job.LookupTaskGroup(a.TaskGroup))
		end := a.UnknownSince().Add(wait + 5*time.Second) // evaluations within 5 s are shared
		if a.ClientStatus == model.AllocClientStatusUnknown && !a.ServerTerminalStatus() && wait > 0 && !end.After(r.w.now) {
			r.w.brokenf("%s is unknown since %s, which should have ended after %s", short(a.ID), a.UnknownSince().Format(time.TimeOnly), wait)
		}
	}
	for d := range v.Deployments() {
		for _, g := range d.TaskGroups {
			if d.Status == model.DeploymentStatusRunning && g.ProgressDeadline > 0 && g.RequireProgressBy.IsZero() {
				r.w.brokenf("deployment %s has no end, and nothing of it is placed", short(d.ID))
			}
			if d.Status == model.DeploymentStatusRunning && !g.Done() && !r.w.waitsForPromotion(d) && !g.RequireProgressBy.IsZero() && g.RequireProgressBy.Before(r.w.now) {
				r.w.brokenf("deployment %s should have ended at %s", short(d.ID), g.RequireProgressBy.Format(time.TimeOnly))
			}
		}
	}
	for n := range v.Nodes() {
		if s := n.DrainStrategy; s != nil && !s.ForceDeadline.IsZero() && s.ForceDeadline.Before(r.w.now) {
			r.w.brokenf("the drain of %s should have ended at %s", n.ID, s.ForceDeadline.Format(time.TimeOnly))
		}
	}
	r.rivals(v)
	if due := r.w.due(false); len(due) > 0 {
		r.w.brokenf("evaluation %s of %s is not carried out", short(due[0].ID), due[0].JobID)
	}
}

// rivals: of an alloc that is back and its replacement, one is stopped as soon as servers
// know that both run.
func (r *rules) rivals(v *state.View) {
	for a := range v.Allocs() {
		b := v.AllocByID(a.NextAllocation)
		job := v.JobByID(a.Namespace, a.JobID)
		if b == nil || job == nil || b.Name != a.Name || !job.Owns(a) || a.JobVersion != b.JobVersion || a.JobVersion != job.Version {
			continue
		}
		serves := func(a *model.Allocation) bool {
			n, tg := v.NodeByID(a.NodeID), job.LookupTaskGroup(a.TaskGroup)
			return !a.TerminalStatus() && n != nil && n.Status == model.NodeStatusReady && tg != nil && a.Serves(tg)
		}
		if serves(a) && serves(b) {
			r.w.brokenf("%s is back, and still runs beside its replacement %s", short(a.ID), short(b.ID))
		}
	}
}
