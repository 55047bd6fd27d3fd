// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	destroyTimeout = time.Minute
	// destroyGrace is how long after the shutdown of the agent a task's resources may
	// still be freed.
	destroyGrace = 3 * time.Second
	// retryMin and retryMax bound the pause before a plugin that does not
	// answer is asked again.
	retryMin = 200 * time.Millisecond
	retryMax = 10 * time.Second
)

// taskID returns the driver's ID of one run of a task.
func taskID(allocID, name string, run uint64) string {
	return fmt.Sprintf("%s/%s/%d", allocID, name, run)
}

// ref names one run of a task for its destruction.
func (r *Runner) ref(name string, run uint64) driver.TaskRef {
	return driver.TaskRef{ID: taskID(r.id, name, run), AllocDir: r.dir.Path, TaskDir: r.dir.Task(name)}
}

// carryOut carries out the effects of a transition. Timers are set at once; everything
// else may block and is executed in order in a separate goroutine.
func (r *Runner) carryOut(te taskEffects) {
	t := r.tasks[te.name]
	var slow []task.Effect
	for _, e := range te.list {
		if w, ok := e.(task.WakeUp); ok {
			r.wakeAt(t, te.name, w.At)
			continue
		}
		if d, ok := e.(task.Destroy); ok {
			t.freeing = append(t.freeing, d.Run)
		}
		slow = append(slow, e)
	}
	if len(slow) == 0 {
		return
	}
	driverName := t.job.Driver
	r.work.Go(func() {
		for _, e := range slow {
			switch e := e.(type) {
			case task.Start:
				r.start(te.name, e)
			case task.Stop:
				r.stopTask(driverName, te.name, e)
			case task.Destroy:
				r.destroy(driverName, te.name, e.Run)
				r.freed(te.name, e.Run)
			case task.Update:
				r.updateTask(driverName, te.name, e.Run)
			}
		}
	})
}

// freed says that the driver has destroyed a run, or was asked to without success.
func (r *Runner) freed(name string, run uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	if at := slices.Index(t.freeing, run); at >= 0 {
		t.freeing = slices.Delete(t.freeing, at, at+1)
	}
	r.lookAtDevices(name)
}

func (r *Runner) wakeAt(t *taskRun, name string, at time.Time) {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(at.Sub(r.cfg.Now()), func() { r.post(name, task.Wake{}) })
}

// start starts a task and then waits for its end.
func (r *Runner) start(name string, e task.Start) {
	run := e.Run
	ctx, abort := context.WithCancel(r.ctx)
	defer abort()
	if !r.beginStart(name, run, abort) {
		return
	}
	drv, ev := r.launch(ctx, name, e)
	if r.ctx.Err() != nil {
		return // the agent ends; the next agent finds out the result of the start
	}
	r.post(name, ev)
	if _, ok := ev.(task.Started); ok {
		r.watch(drv, name, run)
	}
}

// beginStart registers abort, so that a kill cancels the start from now on.
func (r *Runner) beginStart(name string, run uint64, abort context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	if r.closed || t.state.Phase != task.Starting || t.state.Run != run {
		return false
	}
	t.abort = abort
	if t.state.KillWanted || t.state.Pausing {
		abort()
	}
	return true
}

// watch waits for the end of a run and reports it.
func (r *Runner) watch(drv driver.Driver, name string, run uint64) {
	ctx, cancel := context.WithCancel(r.ctx)
	r.openAPI(name) // again after a restart of the agent
	r.resumeTokens(name)
	r.beginTemplates(ctx, name, run)
	endDriver := r.beginDriver(drv, name)
	ev, ok := r.wait(drv, name, run)
	endDriver(ok)
	cancel()
	if ok {
		r.post(name, ev)
	}
}

// launch prepares and starts a task, and returns the resulting event.
func (r *Runner) launch(ctx context.Context, name string, e task.Start) (driver.Driver, task.Event) {
	run := e.Run
	drv, err := r.goOn(ctx, name, e)
	if drv == nil && err == nil {
		drv, err = r.prepareAndStart(ctx, name, run)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	t.abort = nil
	if err != nil {
		failed := t.hide(task.StartFailed{
			Run: run, Err: err.Error(), Cause: causeOf(err), Retry: mayRetry(err), Jitter: r.cfg.Jitter(),
			Reason: errdefs.ReasonOf(err), Details: errdefs.DetailsOf(err), RetryAfter: errdefs.RetryAfter(err),
		}).(task.StartFailed)
		if ctx.Err() == nil {
			t.at.LastError = failed.Err
		}
		return nil, failed
	}
	t.at.LastError = ""
	return drv, task.Started{Run: run}
}

// startTask makes the driver start the task.
func (r *Runner) startTask(ctx context.Context, drv driver.Driver, name string, run uint64, config *driver.TaskConfig) error {
	begin := func() (*driver.Handle, *driver.NetworkOverride, error) {
		if err := r.makeCgroup(ctx, drv, name, run, config); err != nil {
			return nil, nil, err
		}
		r.forgetProgress(name) // progress of an earlier, interrupted start
		return drv.StartTask(ctx, config)
	}
	handle, address, err := begin()
	if errdefs.IsAlreadyExists(err) && r.takeOver(ctx, name, config.ID) {
		return ctx.Err()
	}
	if errdefs.IsAlreadyExists(err) {
		// It was started by an agent that has lost its state: it belongs to no alloc.
		if derr := drv.DestroyTask(ctx, config.Ref(), true); derr == nil {
			handle, address, err = begin()
		}
	}
	// If the plugin is killed during the start, the task has not failed: continue with the
	// started task, or start again once it is certain that there is none.
	for try := 0; errors.Is(err, driver.ErrInterrupted) && try < interruptedTries; try++ {
		if r.takeOver(ctx, name, config.ID) {
			return ctx.Err()
		}
		if !r.cleanUp(drv, config.Ref()) {
			break
		}
		r.logger.Warn("a start was interrupted and is begun again", "task_id", config.ID, "error", err)
		handle, address, err = begin()
	}
	if err == nil {
		err = ctx.Err() // the start was given up, so nobody would look after the task
	}
	if err != nil {
		r.cleanUp(drv, config.Ref())
		r.removeCgroup(name, run)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	t.handle, t.address, t.dirty = handle, address, true
	return nil
}

// mayRetry reports whether a start may be retried: a problem of the task is permanent and
// any other problem temporary, unless the driver marks its error otherwise.
func mayRetry(err error) bool {
	if errdefs.IsInvalidArgument(err) || errdefs.IsUnimplemented(err) {
		return false
	}
	return errdefs.IsRetryable(errdefs.New(errdefs.Unavailable, err)) // an explicit mark within wins
}

// interruptedTries is how often an interrupted start is repeated at once: the task
// itself may be what ends the plugin.
const interruptedTries = 2

// cleanUp destroys a run after a failed start that may have left something behind, and
// reports whether its driver has confirmed that nothing is left.
func (r *Runner) cleanUp(drv driver.Driver, ref driver.TaskRef) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), destroyTimeout)
	defer cancel()
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		err := drv.DestroyTask(ctx, ref, true)
		if err == nil || errdefs.IsNotFound(err) {
			return true
		}
		// A plugin that died during the start is back soon, and then the unfinished task
		// can be destroyed.
		if !errdefs.IsUnavailable(err) || r.ctx.Err() != nil || !r.pauseIn(ctx, pause) {
			r.logger.Warn("a start that failed may have left something behind; the next look for tasks of nobody ends it", "task_id", ref.ID, "error", err)
			return false
		}
	}
}

// wait waits for the end of a run; ok is false if the agent ends first.
func (r *Runner) wait(drv driver.Driver, name string, run uint64) (ev task.Exited, ok bool) {
	id := taskID(r.id, name, run)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		res, err := drv.WaitTask(r.ctx, id)
		if r.ctx.Err() != nil {
			return ev, false
		}
		switch {
		case err == nil:
			return task.Exited{
				Run: run, ExitCode: res.ExitCode, Signal: res.Signal, OOMKilled: res.OOMKilled, Err: res.Err, Jitter: r.cfg.Jitter(),
			}, true
		case errdefs.IsNotFound(err):
			r.logger.Warn("a task is gone", "task", name, "error", err)
			return task.Exited{Run: run, ExitCode: -1, Err: "the task is gone and its exit code is not known: " + err.Error(), Jitter: r.cfg.Jitter()}, true
		}
		// An unreachable driver never means that the task is dead.
		if !r.pause(pause) {
			return ev, false
		}
	}
}

func (r *Runner) pause(d time.Duration) bool { return r.pauseIn(r.ctx, d) }

// pauseIn waits; it reports false if ctx ends first.
func (r *Runner) pauseIn(ctx context.Context, d time.Duration) bool {
	return sleep.For(ctx, d) == nil
}

// resume continues a task whose state was loaded after a restart of the agent.
func (r *Runner) resume(name string, t *taskRun, now time.Time, e *effects) {
	recovering := t.state.Phase == task.Running || t.state.Phase == task.Delaying || t.state.Phase == task.Stopping
	next, list := task.Resume(t.spec, t.state, now)
	t.state = next
	if !recovering {
		if len(list) > 0 {
			e.list = append(e.list, taskEffects{name, list})
		}
		return
	}
	driverName, handle, run := t.job.Driver, t.handle, t.state.Run
	recovered := make(chan struct{})
	t.unseen, t.recovered = true, recovered
	r.work.Go(func() {
		runs, ok := r.recover(driverName, name, handle, run)
		close(recovered)
		if !ok {
			return
		}
		r.mu.Lock()
		if !r.closed {
			t.unseen = !runs // otherwise its end is reported, and comes at once
			e := effects{list: []taskEffects{{name, list}}}
			if runs {
				r.shareCores(name, t, &e)
			}
			r.settle(&e)
		}
		r.mu.Unlock()
		if drv, err := r.cfg.Drivers.Driver(driverName); err == nil {
			r.watch(drv, name, run)
		}
	})
}

// recover makes the driver know a running task again, and reports whether it is still
// running. It retries until that is certain: an unavailable plugin does not end a
// task. ok is false if the task no longer exists.
func (r *Runner) recover(driverName, name string, handle *driver.Handle, run uint64) (runs, ok bool) {
	if handle == nil {
		r.lost(name, run, "its handle was not kept")
		return false, false
	}
	asked, noteSlow := 0, r.slowDriver(name, "take over the running task")
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		drv, err := r.cfg.Drivers.Driver(driverName)
		if err == nil {
			err = drv.RecoverTask(r.ctx, handle)
			if errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) {
				r.lost(name, run, err.Error())
				return false, false
			}
		}
		if err == nil {
			if asked++; asked == 1 {
				pause = retryMin // the plugin is there
			}
			var paused bool
			if runs, paused, err = r.runs(drv, taskID(r.id, name, run), asked); err == nil {
				if runs {
					r.post(name, task.Held{Run: run, Paused: paused})
				}
				return runs, true
			}
		}
		if r.ctx.Err() != nil {
			return false, false
		}
		r.logger.Warn("the task cannot be recovered yet; it is tried again", "task", name, "error", err)
		noteSlow(err)
		if !r.pause(pause) {
			return false, false
		}
	}
}

// unknownTries is how often a driver may report an unknown state of a task. After that
// the task is assumed to be running.
const unknownTries = 5

// runs asks the driver whether a recovered task is running, and whether it is paused. If it
// is not running, waiting for it returns how it ended.
func (r *Runner) runs(drv driver.Driver, id string, asked int) (runs, paused bool, err error) {
	status, err := drv.InspectTask(r.ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		return false, false, nil
	case errdefs.IsUnimplemented(err): // that it was taken over must suffice
		return true, false, nil
	case err != nil:
		return false, false, err
	case status.State == driver.TaskUnknown && asked < unknownTries:
		return false, false, errdefs.Unavailablef("the driver does not know yet whether the task runs")
	}
	return status.State != driver.TaskExited, status.Paused, nil
}

// lost reports a task that disappeared while no agent ran.
func (r *Runner) lost(name string, run uint64, why string) {
	text := "failed to restore task: " + why
	r.logger.Warn("a task of an earlier agent is lost", "task", name, "error", why)
	r.post(name, task.Note{Event: model.TaskEvent{
		Type: model.TaskRestoreFailed, Message: text, DisplayMessage: text, Details: map[string]string{"message": text},
	}})
	r.post(name, task.Exited{Run: run, ExitCode: -1, Err: "the task ended while no agent ran and its exit code is not known", Jitter: r.cfg.Jitter()})
}
