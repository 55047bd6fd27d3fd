// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drain

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// group identifies a task group of a job.
type group struct{ namespace, job, name string }

func groupOf(a *model.Allocation) group { return group{a.Namespace, a.JobID, a.TaskGroup} }

// roomOf returns how many further allocs of a group may leave: max_parallel minus
// those that are marked, on any node, and have no healthy replacement yet. It is
// derived from the allocs each time, so no event can be missed.
func (w *work) roomOf(g group) int {
	job := w.in.View.JobByID(g.namespace, g.job)
	tg := job.LookupTaskGroup(g.name)
	parallel, minHealthy := 1, time.Duration(0)
	if tg != nil && tg.Migrate != nil {
		parallel, minHealthy = max(tg.Migrate.MaxParallel, 1), tg.Migrate.MinHealthyTime
	}
	marked, live, healthy := map[string]bool{}, map[string]bool{}, map[string]time.Time{}
	for _, a := range w.in.View.AllocsByJob(g.namespace, g.job) {
		switch {
		case a.TaskGroup != g.name:
		case a.DesiredTransition.ShouldMigrate():
			marked[a.Name] = true
			live[a.Name] = live[a.Name] || !a.ClientTerminalStatus()
		case !a.TerminalStatus():
			at, ok := healthyAt(a, minHealthy)
			if was, known := healthy[a.Name]; ok && (!known || at.Before(was)) {
				healthy[a.Name] = at
			}
		}
	}
	for name := range marked {
		at, ok := healthy[name]
		if ok && !w.in.Now.Before(at) {
			continue
		}
		if ok {
			w.wakeAt(at)
		}
		if live[name] || replaced(job, tg, name) {
			parallel--
		}
	}
	return parallel
}

// replaced reports whether the scheduler still wants an alloc with that name.
func replaced(job *model.Job, tg *model.TaskGroup, name string) bool {
	if job == nil || job.Stop || tg == nil {
		return false
	}
	a := model.Allocation{Name: name}
	return a.Index() < tg.Count
}

// healthyAt returns when a replacement counts as healthy, if it does not fail before:
// at once if its node reported it healthy, otherwise when its tasks have run for
// minHealthy. The clock of the node may be wrong, and is believed only as far as it agrees with
// the servers': the tasks began after the alloc was placed and before the last report.
func healthyAt(a *model.Allocation, minHealthy time.Duration) (at time.Time, ok bool) {
	switch {
	case a.ClientStatus != model.AllocClientStatusRunning || a.DeploymentStatus.IsUnhealthy():
		return at, false
	case a.DeploymentStatus.IsHealthy():
		return at, true
	}
	for _, t := range a.TaskStates {
		if t.StartedAt != nil && t.StartedAt.After(at) {
			at = *t.StartedAt
		}
	}
	if placed := time.Unix(0, a.CreateTime); at.Before(placed) {
		at = placed
	}
	if reported := time.Unix(0, a.ModifyTime); at.After(reported) {
		at = reported
	}
	return at.Add(minHealthy), true
}
