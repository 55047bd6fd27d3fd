// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// stopGrace is how long after its kill timeout a task may take to end before it is
	// destroyed by force.
	stopGrace = 30 * time.Second
	// destroyPatience is how long a driver may take to destroy a task before the agent
	// kills what it can see of the task.
	destroyPatience = 15 * time.Second
	// killGrace is how long after that the driver may take to notice the end.
	killGrace = 10 * time.Second
)

// stopping reports whether a run is still to be stopped.
func (r *Runner) stopping(name string, run uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.tasks[name].state
	return s.Run == run && s.Phase == task.Stopping
}

// stopTask ends a run; wait notices the end. If the driver does not succeed within the kill
// timeout and a grace, stopTask makes it destroy the task, and if that fails too, the agent
// kills the task's processes.
func (r *Runner) stopTask(driverName, name string, e task.Stop) {
	id := taskID(r.id, name, e.Run)
	signal, deadline := e.Signal, r.cfg.Now().Add(e.Timeout+stopGrace)
	noteSlow := r.slowDriver(name, "stop the task")
	for pause := retryMin; r.stopping(name, e.Run); pause = min(2*pause, retryMax) {
		drv, err := r.cfg.Drivers.Driver(driverName)
		late := r.cfg.Now().After(deadline)
		switch {
		case err != nil:
		case late:
			err = r.destroyWithin(r.ctx, drv, name, e.Run, destroyPatience)
		default:
			err = drv.StopTask(r.ctx, id, e.Timeout, signal)
		}
		if err == nil || r.ctx.Err() != nil {
			return
		}
		// NotFound too: the task may be about to be recovered. If it is gone,
		// wait finds that out and the loop ends.
		r.logger.Warn("stopping the task failed; it is tried again", "task", name, "error", err)
		noteSlow(err)
		if errdefs.IsInvalidArgument(err) {
			signal = "" // a signal that the driver does not know
		}
		if late && r.killed(drv, name, e.Run) {
			r.giveUpOnDriver(driverName, name, e.Run, err)
			return
		}
		if !r.pause(pause) {
			return
		}
	}
}

// slowDriver returns a function that is called whenever the driver could not do what is tried
// again. It adds one event to the task, once this has gone on for longer than Limits.Slow.
func (r *Runner) slowDriver(name, what string) func(error) {
	slow, said := r.cfg.Now().Add(r.cfg.Limits.Slow), false
	return func(err error) {
		if said || r.cfg.Now().Before(slow) {
			return
		}
		said = true
		r.note(name, model.TaskEvent{Type: model.TaskHookMessage, Message: fmt.Sprintf("the driver cannot %s yet and is asked again until it can: %v", what, err)})
	}
}

// destroyWithin has the driver destroy a run.
func (r *Runner) destroyWithin(ctx context.Context, drv driver.Driver, name string, run uint64, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := drv.DestroyTask(ctx, r.ref(name, run), true)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errdefs.DeadlineExceededf("the driver has not destroyed the task within %s: %w", limit, err)
	}
	return err
}

// killed kills the processes of a run that the agent can find, because its driver does not
// end it. It reports whether it found any: only the driver may be able to reach a task.
func (r *Runner) killed(drv driver.Driver, name string, run uint64) bool {
	if r.removeCgroup(name, run) {
		return true
	}
	k, ok := drv.(driver.Killer)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(r.ctx, cgroupTimeout)
	defer cancel()
	return k.KillProcesses(ctx, &driver.TaskConfig{AllocID: r.id, Name: name, TaskDir: r.dir.Task(name)}) > 0
}

// giveUpOnDriver ends a run whose processes were killed and whose driver has not reported
// the end within a grace.
func (r *Runner) giveUpOnDriver(driverName, name string, run uint64, cause error) {
	text := fmt.Sprintf("driver %q does not end the task, so the agent has killed its processes: %v", driverName, cause)
	r.note(name, model.TaskEvent{Type: model.TaskHookMessage, Message: text})
	ctx, cancel := context.WithTimeout(r.ctx, killGrace)
	defer cancel()
	for r.stopping(name, run) {
		if !r.pauseIn(ctx, retryMin) {
			break
		}
	}
	if r.ctx.Err() == nil {
		r.post(name, task.Exited{Run: run, ExitCode: -1, Err: text, Jitter: r.cfg.Jitter()})
	}
}

// destroy makes the driver free the resources of an ended run. It continues for a moment
// when the agent ends, since unfreed resources would stay with the driver. It removes the
// run's cgroup in any case.
func (r *Runner) destroy(driverName, name string, run uint64) {
	defer r.removeCgroup(name, run)
	drv, err := r.cfg.Drivers.Driver(driverName)
	if err != nil {
		return // without the driver nothing else can be freed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), destroyTimeout)
	defer cancel()
	defer context.AfterFunc(r.ctx, func() { time.AfterFunc(destroyGrace, cancel) })()
	err = r.destroyWithin(ctx, drv, name, run, destroyPatience)
	if errdefs.IsDeadlineExceeded(err) && ctx.Err() == nil {
		text := fmt.Sprintf("driver %q does not free what the ended task held; the agent kills what is left of it and asks again: %v", driverName, err)
		r.logger.Warn("the driver could not destroy an ended task; its remaining processes are killed, and the driver is asked again", "task", name, "error", err)
		r.note(name, model.TaskEvent{Type: model.TaskHookMessage, Message: text})
		r.removeCgroup(name, run)
		err = r.destroyWithin(ctx, drv, name, run, destroyTimeout)
	}
	if err != nil {
		r.logger.Warn("an ended task could not be freed at its driver; the next start of the agent tries again", "task", name, "error", err)
	}
}
