// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"slices"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// DriverReadsLogs reports whether the driver of a task can read output that its daemon keeps.
func (r *Runner) DriverReadsLogs(name string) bool {
	drv, err := r.driverOf(name)
	if err != nil {
		return false
	}
	_, can := drv.(driver.LogReader)
	return can && slices.Contains(drv.Info().Features, driver.FeatureReadLogs)
}

// KeepsLogs reports whether the output of a task goes to log files.
func (r *Runner) KeepsLogs(name string) bool {
	a := r.Alloc()
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return true
	}
	t := tg.LookupTask(name)
	return t == nil || t.LogConfig == nil || !t.LogConfig.Disabled
}

// OutputOf returns the last started run of a task, which may have ended. Its ID is empty
// before the first start.
func (r *Runner) OutputOf(ctx context.Context, name string) (TaskRun, error) {
	if _, err := r.reach(ctx, name); err != nil { // the driver knows the task, if it runs
		return TaskRun{}, err
	}
	r.mu.Lock()
	handle := r.tasks[name].handle
	r.mu.Unlock()
	if handle == nil {
		return TaskRun{}, nil
	}
	drv, err := r.driverOf(name)
	if err != nil {
		return TaskRun{}, errdefs.Unavailablef("%w", err)
	}
	return TaskRun{Task: name, TaskRef: driver.TaskRef{ID: handle.TaskID}, Driver: drv}, nil
}

// ReadOutput passes output of a run to send: see driver.LogReader.
func (r *Runner) ReadOutput(ctx context.Context, run TaskRun, q driver.LogQuery, send func(driver.LogPiece) error) error {
	reader, ok := run.Driver.(driver.LogReader)
	if !ok {
		return errdefs.Unimplementedf("driver of task %q cannot read its output", run.Task)
	}
	err := reader.ReadLogs(ctx, run.ID, q, send)
	if errdefs.IsNotFound(err) {
		return errdefs.NotFoundf("task %q has no log files, and its driver no longer has the output that its daemon kept, because the task has ended: %w", run.Task, err)
	}
	return err
}
