// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// holds says which groups of a job wait now, and for what.
func (o Of) holds(job *model.Job) (out []string) {
	held := reconcile.Holds(o.View, job, o.Now)
	for _, group := range slices.Sorted(maps.Keys(held)) {
		out = append(out, fmt.Sprintf("Group %q %s.", group, held[group].Say(o.Now)))
	}
	if len(held) == 0 {
		return nil
	}
	err := job.CheckCycle(func(id string) *model.Job { return o.View.JobByID(job.Namespace, id) })
	if err != nil { // a rollback or a dispatch has made it
		out = append(out, fmt.Sprintf("It can never start: %v.", err))
	}
	return out
}

// heldNow says what the groups that a blocked evaluation holds back wait for now.
func (o Of) heldNow(e *model.Evaluation) (out []string) {
	job := o.View.JobByID(e.Namespace, e.JobID)
	if job == nil || len(e.Held) == 0 {
		return nil
	}
	now := reconcile.Holds(o.View, job, o.Now)
	for _, group := range slices.Sorted(maps.Keys(e.Held)) {
		if h := now[group]; h != nil {
			out = append(out, fmt.Sprintf("%d allocations of group %q wait: it %s.", e.Held[group].Allocs, group, h.Say(o.Now)))
		} else {
			out = append(out, fmt.Sprintf("Group %q does not wait any more, and is placed next.", group))
		}
	}
	return out
}

// heldThen says what an evaluation held back when it was carried out.
func (o Of) heldThen(e *model.Evaluation) (out []string) {
	for _, group := range slices.Sorted(maps.Keys(e.Held)) {
		out = append(out, fmt.Sprintf("It held %d allocations of group %q back, which then %s.", e.Held[group].Allocs, group, e.Held[group].Past()))
	}
	return out
}

// maxTasks is how many waiting tasks the explanation of a job names.
const maxTasks = 20

// tasksOf says which tasks of the job's allocs wait for other tasks.
func (o Of) tasksOf(job *model.Job) (out []string) {
	for _, a := range o.View.AllocsByJob(job.Namespace, job.ID) {
		for _, line := range o.tasks(a) {
			if len(out) == maxTasks {
				return append(out, "More tasks wait for others.")
			}
			out = append(out, fmt.Sprintf("Allocation %s: %s", short(a.ID), line))
		}
	}
	return out
}

// tasks says which tasks of an alloc wait for others. The node decides about them; this is
// what it has reported.
func (o Of) tasks(a *model.Allocation) (out []string) {
	if a.TerminalStatus() {
		return nil
	}
	tg := o.View.JobOf(a).LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	for _, t := range tg.Tasks {
		s := a.TaskStates[t.Name]
		if s == nil || s.State != model.TaskStatePending || len(t.DependsOn) == 0 {
			continue
		}
		since, held := heldSince(s)
		if !held {
			continue
		}
		var on []string
		for _, d := range t.DependsOn {
			if words := waits(d, a.TaskStates[d.Name], since, o.Now); words != "" {
				on = append(on, words)
			}
		}
		if len(on) > 0 {
			out = append(out, fmt.Sprintf("Task %q waits for %s.", t.Name, strings.Join(on, "; ")))
		}
	}
	return out
}

// heldSince returns when the node has begun to hold a task back.
func heldSince(s *model.TaskState) (time.Time, bool) {
	for _, e := range slices.Backward(s.Events) {
		if e.Type == model.TaskAwaitsDependency {
			return time.Unix(0, e.Time).UTC(), true
		}
	}
	return time.Time{}, false
}

// waits says how far a task is for which another one waits, "" if it is as it should be.
func waits(d *model.Dependency, on *model.TaskState, since, now time.Time) string {
	is := "it has not begun"
	switch {
	case on == nil:
	case on.State == model.TaskStateDead && !on.Failed:
		return ""
	case on.State == model.TaskStateDead:
		is = "it has failed"
	case on.State == model.TaskStateRunning:
		if d.Condition == model.DependencyStarted {
			return ""
		}
		is = "it runs"
		if d.Condition == model.DependencyHealthy {
			is = "it runs, and its node does not count it as healthy yet"
		}
	}
	words := fmt.Sprintf("%s: %s", d, is)
	if d.Timeout > 0 {
		words += fmt.Sprintf("; limit in %s", since.Add(d.Timeout).Sub(now).Round(time.Second))
	}
	return words
}
