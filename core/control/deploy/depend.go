// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package deploy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// descDependency is the status description of a deployment that has waited for too long.
const descDependency = "Failed due to a dependency"

// holds returns what holds groups of the deployment back. No progress deadline passes for
// them: it begins when they are released.
func (w *work) holds() map[string]*model.Hold {
	if w.held != nil || !w.job.HasHolds() {
		return w.held
	}
	w.held = map[string]*model.Hold{}
	now := w.in.View.JobByID(w.d.Namespace, w.d.JobID)
	if now == nil || now.Version != w.job.Version || now.CreateIndex != w.job.CreateIndex {
		return w.held // the scheduler cancels the deployment
	}
	for group, h := range reconcile.Holds(w.in.View, w.job, w.in.Now) {
		if g := w.d.TaskGroups[group]; g != nil && !g.Done() {
			w.held[group] = h
		}
	}
	return w.held
}

// waited says which group has waited for too long for what it depends on, "" if none has.
func (w *work) waited() string {
	held := w.holds()
	for _, group := range slices.Sorted(maps.Keys(held)) {
		if h := held[group]; h.Over {
			return fmt.Sprintf("group %q %s", group, h)
		}
	}
	return ""
}
