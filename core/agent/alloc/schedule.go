// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"slices"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// windowOf returns the window of a task, nil if it always runs. A schedule that cannot be
// read was registered with servers that did not check it, and is ignored as it was then.
func (c *Config) windowOf(a *model.Allocation, t *model.Task) task.Window {
	if t.Schedule == nil {
		return nil
	}
	w, err := t.Schedule.Window()
	if err != nil {
		c.Logger.Warn("the schedule of a task cannot be read, so the task always runs; register its job again", "alloc_id", a.ID, "task", t.Name, "error", err)
		return nil
	}
	return w
}

// lookAtWindows pauses the tasks whose window has closed, and has those run whose window has
// opened. A task that was running when the agent started must be known to its driver first.
func (r *Runner) lookAtWindows(now time.Time, e *effects) {
	for name, t := range r.tasks {
		if !t.unseen && task.Due(t.spec, t.state, now) {
			r.step(name, task.Look{}, e)
		}
	}
}

// nextLook returns when the first window is to be looked at; zero means never.
func (r *Runner) nextLook(now time.Time) (first time.Time) {
	for _, t := range r.tasks {
		if at := task.NextLook(t.spec, t.state, now); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// giveUp cancels the current start if the effects ask for it, and returns the others.
func (t *taskRun) giveUp(list []task.Effect) []task.Effect {
	return slices.DeleteFunc(list, func(e task.Effect) bool {
		_, is := e.(task.GiveUp)
		if is && t.abort != nil {
			t.abort()
		}
		return is
	})
}

// scheduled returns the names of the tasks that have a schedule: of all tasks, or only of the
// named one.
func (r *Runner) scheduled(name string) ([]string, error) {
	names, err := r.pick(name)
	if err != nil {
		return nil, err
	}
	if names = slices.DeleteFunc(names, func(n string) bool { return r.tasks[n].spec.Window == nil }); len(names) > 0 {
		return names, nil
	}
	if name != "" {
		return nil, errdefs.FailedPreconditionf("task %q has no schedule block; drover alloc freeze holds a task without one", name)
	}
	return nil, errdefs.FailedPreconditionf("no task of the allocation has a schedule block; drover alloc freeze holds tasks without one")
}

// Direct has tasks with a schedule pause, run or follow it, all or the named one. It is
// remembered over restarts of the agent, and not passed on to a replacement of the alloc.
func (r *Runner) Direct(name, state string) error {
	if err := model.CheckScheduleState(state); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	names, err := r.scheduled(name)
	if err != nil {
		return err
	}
	if task.Ending(r.group, r.states(), r.wanted(r.cfg.Now())) {
		return errdefs.FailedPreconditionf("the allocation is ending")
	}
	var e effects
	for _, n := range names {
		r.step(n, task.Direct{State: state}, &e)
	}
	r.settle(&e)
	return nil
}

// Schedules returns what the tasks with a schedule have been told, and what they do, all or
// the named one.
func (r *Runner) Schedules(name string) (map[string]model.TaskScheduleNow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, err := r.scheduled(name)
	if err != nil {
		return nil, err
	}
	now, out := r.cfg.Now(), map[string]model.TaskScheduleNow{}
	for _, n := range names {
		t := r.tasks[n]
		s := model.TaskScheduleNow{State: t.state.Order, Paused: t.state.Report.Paused, Next: t.spec.Window.Next(now).UTC()}
		if s.State == "" {
			s.State = model.ScheduleStateScheduled
		}
		out[n] = s
	}
	return out, nil
}

// off reports whether a task is paused, or any if name is empty. Its checks cannot pass then,
// and the health of the alloc does not depend on them.
func (r *Runner) off(name string) bool {
	for n, t := range r.tasks {
		if (name == "" || n == name) && t.state.Phase == task.Off {
			return true
		}
	}
	return false
}
