// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// A group that is held back gets no alloc of the newest version, and nothing that runs is
// stopped for it: what is lost or migrates is replaced by the version that it ran. Its
// deployment begins, so that it can fail, but the progress deadline of the group does not:
// it begins when the group is released.

// hold returns what holds a group back, or nil.
func (r *run) hold(tg *model.TaskGroup, allocs []*model.Allocation) *model.Hold {
	if r.Depend == nil {
		return nil
	}
	h := holdOf(r.Depend, r.Job, tg, allocs, r.Now)
	if h == nil {
		r.release(tg)
		return nil
	}
	if ds := r.stateOf(tg); ds != nil && r.fresh {
		ds.RequireProgressBy = time.Time{}
	}
	return h
}

// stateOf returns the group's part of the current deployment, or nil.
func (r *run) stateOf(tg *model.TaskGroup) *model.DeploymentState {
	if r.current == nil {
		return nil
	}
	return r.current.TaskGroups[tg.Name]
}

// holdBack records that allocs of a group are not placed, unless the roll-out has stopped
// anyway.
func (r *run) holdBack(tg *model.TaskGroup, h *model.Hold, n int) {
	r.pending = true
	if n <= 0 || r.halted() && !r.foundNoRoom() {
		return
	}
	r.join(tg)
	if r.res.Held == nil {
		r.res.Held = map[string]*model.Hold{}
	}
	h.Allocs += n
	r.res.Held[tg.Name] = h
}

// release begins the progress deadline of a group that was held back until now: there may be
// no room for it.
func (r *run) release(tg *model.TaskGroup) {
	ds := r.stateOf(tg)
	if r.fresh || ds == nil || r.current.Status != model.DeploymentStatusRunning {
		return
	}
	if ds.ProgressDeadline == 0 || !ds.RequireProgressBy.IsZero() || ds.PlacedAllocs > 0 || ds.Done() {
		return
	}
	if r.res.Deployment == nil {
		r.res.Deployment = r.current.Copy()
	}
	r.res.Deployment.TaskGroups[tg.Name].RequireProgressBy = r.Now.UTC().Add(ds.ProgressDeadline)
}
