// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// takeOverLimit bounds how long a driver is asked for a task whose start may have
// happened.
const takeOverLimit = 30 * time.Second

// goOn continues a start that an earlier agent process began and that may have succeeded.
// It returns a nil driver if there is no task.
func (r *Runner) goOn(ctx context.Context, name string, e task.Start) (driver.Driver, error) {
	if !e.Again {
		return nil, nil
	}
	id := taskID(r.id, name, e.Run)
	if r.takeOver(ctx, name, id) {
		return r.driverOf(name)
	}
	if drv, err := r.driverOf(name); err == nil {
		r.cleanUp(drv, r.ref(name, e.Run))
	}
	return nil, ctx.Err()
}

// driverOf returns the driver of a task: see Drivers.
func (r *Runner) driverOf(name string) (driver.Driver, error) {
	r.mu.Lock()
	driverName := r.tasks[name].job.Driver
	r.mu.Unlock()
	return r.cfg.Drivers.Driver(driverName)
}

// takeOver asks the driver for a task whose start was interrupted, and takes it over if
// there is one. It repeats the question, for a limited time, until the driver can answer.
func (r *Runner) takeOver(ctx context.Context, name, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, takeOverLimit)
	defer cancel()
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		drv, err := r.driverOf(name)
		if err == nil {
			var handle *driver.Handle
			if handle, err = find(ctx, drv, id); err == nil && handle != nil {
				r.mu.Lock()
				t := r.tasks[name]
				t.handle, t.dirty = handle, true
				r.mu.Unlock()
				r.logger.Info("a task whose start was interrupted runs and is taken over", "task", name, "task_id", id)
				return true
			}
		}
		if err == nil || errdefs.IsUnimplemented(err) || !r.pauseIn(ctx, pause) {
			return false
		}
	}
}

// find returns the handle of a task that the driver has and has taken over; nil for
// none that could be.
func find(ctx context.Context, drv driver.Driver, id string) (*driver.Handle, error) {
	l, ok := drv.(driver.Lister)
	if !ok {
		return nil, errdefs.Unimplementedf("the driver does not list its tasks")
	}
	list, err := l.ListTasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range list {
		if h.TaskID != id || len(h.State) == 0 {
			continue
		}
		err := drv.RecoverTask(ctx, h)
		if errdefs.IsNotFound(err) {
			err = errdefs.Unavailablef("task %q is being started, or ends: %w", id, err)
		}
		if errdefs.IsInvalidArgument(err) {
			return nil, nil
		}
		return h, err
	}
	return nil, nil
}
