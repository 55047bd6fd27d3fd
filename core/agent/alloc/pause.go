// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// held is a running task that may be paused or resumed.
type held struct {
	task, id string
	run      uint64
	driver   driver.Driver
	pauser   driver.Pauser // nil if the driver cannot pause tasks
}

// holdable returns the running tasks, all or the named one. A task that is being stopped is
// left out.
func (r *Runner) holdable(name string) ([]held, error) {
	r.mu.Lock()
	names, err := r.pick(name)
	drivers := map[string]string{}
	var out []held
	for _, n := range names {
		if t := r.tasks[n]; t.state.Phase == task.Running || t.state.Phase == task.Delaying {
			drivers[n] = t.job.Driver
			out = append(out, held{task: n, id: taskID(r.id, n, t.state.Run), run: t.state.Run})
		}
	}
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for i := range out {
		h := &out[i]
		if h.driver, err = r.cfg.Drivers.Driver(drivers[h.task]); err != nil {
			return nil, err
		}
		if p, ok := h.driver.(driver.Pauser); ok && slices.Contains(h.driver.Info().Features, driver.FeaturePause) {
			h.pauser = p
		}
	}
	return out, nil
}

// Pause pauses or resumes one running task, or all running tasks if name is empty. No task
// is paused if the driver of one of them cannot.
func (r *Runner) Pause(ctx context.Context, name string, pause bool) error {
	list, err := r.holdable(name)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errdefs.FailedPreconditionf("Task not running")
	}
	for _, h := range list {
		if h.pauser == nil {
			return errdefs.Unimplementedf("driver %q of task %q cannot pause tasks", h.driver.Info().Name, h.task)
		}
	}
	for _, h := range list {
		act, call := "resume", h.pauser.ResumeTask
		if pause {
			act, call = "pause", h.pauser.PauseTask
		}
		err := call(ctx, h.id)
		_, asked := r.askPaused(ctx, h) // also after an error, which says nothing about the task
		if err == nil {
			err = asked
		}
		if err != nil {
			return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("%s task %q: %w", act, h.task, err))
		}
	}
	return nil
}

// askPaused asks the driver whether it holds a task, and records the answer.
func (r *Runner) askPaused(ctx context.Context, h held) (bool, error) {
	status, err := h.driver.InspectTask(ctx, h.id)
	if err != nil {
		return false, err
	}
	if status.State != driver.TaskRunning {
		return false, nil
	}
	r.post(h.task, task.Held{Run: h.run, Paused: status.Paused})
	return status.Paused, nil
}

// Paused returns the tasks that their drivers report as paused, whoever has paused them.
// Tasks of a driver that does not answer count as not paused.
func (r *Runner) Paused(ctx context.Context) []string {
	list, err := r.holdable("")
	if err != nil {
		return nil
	}
	var out []string
	for _, h := range list {
		if h.pauser == nil {
			continue
		}
		if paused, err := r.askPaused(ctx, h); err == nil && paused {
			out = append(out, h.task)
		}
	}
	return out
}
