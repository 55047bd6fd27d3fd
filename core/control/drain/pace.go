// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drain

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// group names a task group of a job.
type group struct{ namespace, job, name string }

func groupOf(a *model.Allocation) group { return group{a.Namespace, a.JobID, a.TaskGroup} }

// roomOf returns how many more allocs of a group may leave: max_parallel less
// those that were marked, on any node, and have no healthy replacement yet. It is
// derived from the allocs each time, so no event can be missed.
func (w *work) roomOf(g group) int {
	job := w.in.View.JobByID(g.namespace, g.job)
	tg := job.LookupTaskGroup(g.name)
	parallel, minHealthy := 1, time.Duration(0)
	if tg != nil && tg.Migrate != nil {
		parallel, minHealthy = max(tg.Migrate.MaxParallel, 1), tg.Migrate.MinHealthyTime
	}
	marked, live, healthy := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range w.in.View.AllocsByJob(g.namespace, g.job) {
		switch {
		case a.TaskGroup != g.name:
		case a.DesiredTransition.ShouldMigrate():
			marked[a.Name] = true
			live[a.Name] = live[a.Name] || !a.ClientTerminalStatus()
		case a.TerminalStatus():
		case w.healthy(a, minHealthy):
			healthy[a.Name] = true
		}
	}
	for name := range marked {
		if !healthy[name] && (live[name] || replaced(job, tg, name)) {
			parallel--
		}
	}
	return parallel
}

// replaced reports whether the scheduler still wants an alloc of that name.
func replaced(job *model.Job, tg *model.TaskGroup, name string) bool {
	if job == nil || job.Stop || tg == nil {
		return false
	}
	a := model.Allocation{Name: name, JobID: job.ID, TaskGroup: tg.Name}
	return a.Index() < tg.Count
}

// healthy reports whether a replacement can take over: by its health if the
// node judged it, else once its tasks have run for long enough; then the
// decision is taken again at that time.
func (w *work) healthy(a *model.Allocation, minHealthy time.Duration) bool {
	switch {
	case a.ClientStatus != model.AllocClientStatusRunning || a.DeploymentStatus.IsUnhealthy():
		return false
	case a.DeploymentStatus.IsHealthy():
		return true
	}
	var since time.Time
	for _, t := range a.TaskStates {
		if t.StartedAt != nil && t.StartedAt.After(since) {
			since = *t.StartedAt
		}
	}
	if at := since.Add(minHealthy); w.in.Now.Before(at) {
		w.wakeAt(at)
		return false
	}
	return true
}
