// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// updateTask gives a running task its newly assigned resources. While the plugin is away it
// tries again, since that does not hurt the task; it reports any other failure. It reports
// nothing for an ended run, since wait reports the end.
func (r *Runner) updateTask(driverName, name string, run uint64) {
	id := taskID(r.id, name, run)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		limits, resources, moves, ok := r.updateOf(name, run)
		if !ok {
			return
		}
		drv, err := r.cfg.Drivers.Driver(driverName)
		if err == nil {
			if err = r.callUpdate(drv, id, resources); err == nil {
				r.post(name, task.Updated{Run: run, Limits: limits})
				return
			}
		} else {
			err = errdefs.Unavailablef("%w", err) // it may come back
		}
		if r.ctx.Err() != nil {
			return // the next agent updates it
		}
		if !errdefs.IsUnavailable(err) && !errdefs.IsDeadlineExceeded(err) {
			status, gone := drv.InspectTask(r.ctx, id)
			if errdefs.IsNotFound(gone) || gone == nil && status.State == driver.TaskExited || r.ctx.Err() != nil {
				return
			}
			switch {
			case !moves:
				r.logger.Warn("the resources of a running task could not be changed; it is restarted with its new ones", "task", name, "error", err)
			case !errdefs.IsUnimplemented(err):
				r.logger.Warn("a running task could not be moved to the cores that no other task has reserved; it stays where it is", "task", name, "error", err)
			}
			r.post(name, task.UpdateFailed{Run: run, Limits: limits, Err: err.Error()})
			return
		}
		r.logger.Warn("the resources of a running task cannot be changed yet; it is tried again", "task", name, "error", err)
		if !r.pause(pause) {
			return
		}
	}
}

// updateOf returns the newest resources of a run that is being updated. moves says that it gets
// nothing new but other cores to share.
func (r *Runner) updateOf(name string, run uint64) (limits task.Limits, resources driver.Resources, moves, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	if r.closed || t.state.Run != run || t.state.Phase != task.Running || !t.state.Updating || r.alloc.AllocatedResources == nil {
		return task.Limits{}, driver.Resources{}, false, false
	}
	limits = t.spec.Limits
	resources = r.cfg.resourcesOf(r.alloc.AllocatedResources.Tasks[name])
	if t.state.Has.Cores != "" && limits.Cores == "" { // no cores would leave the task on those that it has
		resources.SharedCores, _ = r.cfg.Cgroups.Shared()
	}
	return limits, resources, t.state.Has.SameAssigned(limits), true
}

func (r *Runner) callUpdate(drv driver.Driver, id string, resources driver.Resources) error {
	u, ok := drv.(driver.Updater)
	if !ok {
		return errdefs.Unimplementedf("driver %q cannot change the resources of a running task", drv.Info().Name)
	}
	return u.UpdateTask(r.ctx, id, resources)
}
