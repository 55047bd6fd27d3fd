// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// placeSystem places allocs of one group on given nodes. A node that is not feasible is
// skipped; a node without room is a failure.
func (p *process) placeSystem(ps []reconcile.Placement) {
	pl := p.newPlacer(ps[0].Job, ps[0].Group)
	failed, placed := &model.AllocMetric{}, 0
	for i := range ps {
		row, known := p.cluster.row(ps[i].Node.ID)
		if !known { // its node is not ready: leave its alloc alone
			continue
		}
		if p.placeOn(pl, &ps[i], row, failed) {
			placed++
		} else {
			failed.NodesEvaluated++
		}
	}
	// It is not a failure if some nodes are not feasible, but it is reported if none
	// is.
	u := p.updates[pl.tg.Name]
	idle := placed == 0 && u.Ignore+u.InPlaceUpdate+u.DestructiveUpdate+u.Canary == 0
	if failed.NodesEvaluated > 0 && (idle || failed.NodesExhausted > 0) {
		pl.countTasks(failed)
		p.out.FailedTGAllocs[pl.tg.Name] = failed
	}
}

// placeOn places an alloc of a system job on its node, which is a row of the cluster, or
// counts in failed why it cannot.
func (p *process) placeOn(pl *placer, pm *reconcile.Placement, row int, failed *model.AllocMetric) bool {
	if why := pl.chk.Check(pm.Node); why != "" {
		filtered(failed, pm.Node.NodeClass, why, 1)
		return false
	}
	id := p.ids.NewID()
	pl.placing(pm)
	released := false
	if pm.Update {
		_, released = p.cluster.release(pm.Previous)
		pl.picker.Refresh(row)
		pl.distinct.Add(pm.Node, pl.tg.Name, -1)
	}
	if why := pl.distinct.Check(pm.Node); why != "" { // another alloc excludes it
		filtered(failed, pm.Node.NodeClass, why, 1)
		pl.keep(pm, released)
		return false
	}
	res, why := pl.tryOn(row, id)
	if why != "" && pl.evictBest(row, id) {
		res, why = pl.tryOn(row, id)
	}
	if why != "" {
		pl.keep(pm, released)
		if failed.NodesExhausted > 0 {
			failed.CoalescedFailures++
		}
		pl.countOne(failed, pm.Node, why)
		p.out.QueuedAllocations[pl.tg.Name]++
		return false
	}
	made := pl.success(row, 0)
	pl.take(row, res)
	p.commit(pm, row, id, res, made)
	if !pm.Update {
		p.updates[pl.tg.Name].Place++
	}
	return true
}

// firstAllocDeadline is how long a deployment of a system job waits for a first
// feasible node if no group has a progress deadline.
const firstAllocDeadline = 10 * time.Minute

// awaitFirst keeps a deployment of a system job open if no feasible node was found;
// otherwise it would be complete without any alloc. It waits for a first alloc until
// the progress deadline. A deployment that already waits is not changed.
func (p *process) awaitFirst() {
	d := p.plan.Deployment
	if d == nil || d.Active() || len(p.plan.Place) > 0 || slices.ContainsFunc(p.plan.Change, func(c model.AllocChange) bool {
		return c.Kind == model.AllocUpdateInPlace
	}) {
		return
	}
	if waits := p.view.LatestDeployment(d.Namespace, d.JobID); waits != nil && waits.ID == d.ID {
		p.plan.Deployment = nil
		return
	}
	d.Status, d.StatusDescription = model.DeploymentStatusRunning, model.DeploymentStatusDescriptionRunning
	for _, tg := range p.job.TaskGroups {
		g := d.TaskGroups[tg.Name]
		if g == nil {
			g = &model.DeploymentState{}
			d.TaskGroups[tg.Name] = g
		}
		g.DesiredTotal = 1
		g.ProgressDeadline = cmp.Or(g.ProgressDeadline, firstAllocDeadline)
		g.RequireProgressBy = p.now.Add(g.ProgressDeadline).UTC()
	}
}

// keep keeps the alloc that an update would have replaced.
func (pl *placer) keep(pm *reconcile.Placement, released bool) {
	if released {
		pl.cluster.restore(pm.Previous)
	}
	if pm.Update {
		pl.distinct.Add(pm.Node, pl.tg.Name, 1)
	}
}
