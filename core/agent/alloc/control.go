// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ID is the alloc's id.
func (r *Runner) ID() string { return r.id }

// Dir is the alloc's directory.
func (r *Runner) Dir() allocdir.Dir { return r.dir }

// Ended reports whether all tasks are dead and nothing of the group is left to be torn
// down.
func (r *Runner) Ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Over returns a channel that is closed once the alloc has ended.
func (r *Runner) Over() <-chan struct{} { return r.over }

// BeingRead reports whether the data of the ended alloc is being sent to another node.
func (r *Runner) BeingRead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readers > 0
}

// EndedAt is when the last task died; zero while one lives.
func (r *Runner) EndedAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var last time.Time
	if !r.ended {
		return last
	}
	for _, t := range r.tasks {
		if at := t.state.Report.FinishedAt; at != nil && at.After(last) {
			last = *at
		}
	}
	return last
}

// Alloc is the newest assignment of the servers. It is shared and must not be changed.
func (r *Runner) Alloc() *model.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alloc
}

// View returns the alloc as reported to servers.
func (r *Runner) View() *model.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view()
}

// Report returns the alloc as it may be reported to servers; false while the drivers
// have not confirmed its stored state.
func (r *Runner) Report() (*model.Allocation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun || !r.seen() {
		return nil, false
	}
	return r.view(), true
}

// HasTask reports whether the alloc has a task of that name.
func (r *Runner) HasTask(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[name] != nil
}

// TaskCount counts the events of a task since the node received its alloc.
type TaskCount struct {
	Task                       string
	Starts, Restarts, OOMKills uint64
	Running, Dead, Failed      bool
}

// Counts returns the counts of all tasks, by name.
func (r *Runner) Counts() []TaskCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]TaskCount, 0, len(r.tasks))
	for name, t := range r.tasks {
		s := t.state
		out = append(out, TaskCount{
			Task: name, Starts: s.Starts, Restarts: s.Report.Restarts, OOMKills: s.OOMKills,
			Running: s.Report.State == model.TaskStateRunning, Dead: s.Phase == task.Dead, Failed: s.Report.Failed,
		})
	}
	slices.SortFunc(out, func(a, b TaskCount) int { return strings.Compare(a.Task, b.Task) })
	return out
}

// Restart restarts one task, or all running tasks if name is empty. With dead, ended
// tasks are restarted too: the named one at once, or all tasks of the alloc in the
// order of their lifecycle.
func (r *Runner) Restart(name string, dead bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, err := r.pick(name)
	if err != nil {
		return err
	}
	if r.phase.Phase != group.Ready || task.Ending(r.group, r.states(), r.wanted(r.cfg.Now())) {
		return errdefs.FailedPreconditionf("Task not running")
	}
	var e effects
	any := false
	for _, n := range names {
		ev := restartOf(r.tasks[n], name == "" && dead, dead)
		if ev != nil {
			any = true
			r.step(n, ev, &e)
		}
	}
	if !any {
		return errdefs.FailedPreconditionf("Task not running")
	}
	r.settle(&e)
	return nil
}

// restartOf returns the event that restarts a task, or nil.
func restartOf(t *taskRun, all, dead bool) task.Event {
	phase := t.state.Phase
	switch {
	case all && task.Hook(t.job) == model.TaskLifecycleHookPoststop:
		return nil // its turn comes at the end, as ever
	case all && phase == task.Waiting && !t.state.HasStarted():
		return nil
	case all:
		return task.Rerun{Reason: "User requested all tasks to restart"}
	case phase == task.Running || phase == task.Backoff || dead && phase == task.Dead && task.Hook(t.job) == "":
		return task.Restart{Reason: "User requested task to restart", Revive: dead}
	}
	return nil
}

// pick returns the named task, or all.
func (r *Runner) pick(name string) ([]string, error) {
	if name != "" {
		if r.tasks[name] == nil {
			return nil, unknownTask(name)
		}
		return []string{name}, nil
	}
	return r.taskNames(), nil
}

// taskNames returns the names of all tasks. The lock must be held.
func (r *Runner) taskNames() (names []string) {
	for _, t := range r.group.Tasks {
		names = append(names, t.Name)
	}
	return names
}

func unknownTask(name string) error { return errdefs.InvalidArgumentf("unknown task name %q", name) }

// TaskRun names a running task for its driver.
type TaskRun struct {
	Task string
	driver.TaskRef
	Driver driver.Driver
}

// Running returns the running tasks, all or the named one. A task that is being
// restarted is left out, because requests would reach a process that is ending.
func (r *Runner) Running(name string) ([]TaskRun, error) {
	r.mu.Lock()
	names, err := r.pick(name)
	type run struct {
		task, driver string
		ref          driver.TaskRef
	}
	var runs []run
	for _, n := range names {
		t := r.tasks[n]
		if t.state.Phase == task.Running || t.state.Phase == task.Delaying || t.state.Phase == task.Stopping && !t.state.RestartWanted {
			runs = append(runs, run{n, t.job.Driver, r.ref(n, t.state.Run)})
		}
	}
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var out []TaskRun
	for _, x := range runs {
		drv, err := r.cfg.Drivers.Driver(x.driver)
		if err != nil {
			return nil, err
		}
		out = append(out, TaskRun{Task: x.task, TaskRef: x.ref, Driver: drv})
	}
	return out, nil
}

// recoveryTime is how long a request waits for the driver of a task to know the task
// again after the agent has started.
const recoveryTime = 10 * time.Second

// reach returns the running tasks, all or the named one, when their drivers know them:
// after a start of the agent it waits until the tasks are recovered. It fails with
// Unavailable if that takes longer than recoveryTime.
func (r *Runner) reach(ctx context.Context, name string) ([]TaskRun, error) {
	r.mu.Lock()
	names, err := r.pick(name)
	waits := map[string]<-chan struct{}{}
	for _, n := range names {
		if c := r.tasks[n].recovered; c != nil {
			waits[n] = c
		}
	}
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	for n, recovered := range waits {
		select {
		case <-recovered:
		case <-limited.Done():
			return nil, errdefs.Unavailablef("task %q: the agent was started again, and the driver of the task has not recovered it yet; try again, or look at the agent's log (%w)", n, limited.Err())
		}
	}
	return r.Running(name)
}

// Signal sends a signal to one task, or to all that run if name is empty.
func (r *Runner) Signal(ctx context.Context, name, signal string) error {
	return r.signal(ctx, name, signal, "User requested signal")
}

func (r *Runner) signal(ctx context.Context, name, signal, reason string) error {
	runs, err := r.reach(ctx, name)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return errdefs.FailedPreconditionf("Task not running")
	}
	for _, t := range runs {
		if !t.Driver.Info().Capabilities.SendSignals {
			return errdefs.Unimplementedf("driver of task %q does not support signals", t.Task)
		}
		r.post(t.Task, task.Note{Event: model.TaskEvent{
			Type: model.TaskSignaling, TaskSignal: signal, TaskSignalReason: reason, DisplayMessage: "Task being sent signal " + signal + ": " + reason,
			Details: map[string]string{"task_signal": signal, "task_signal_reason": reason},
		}})
		if err := t.Driver.SignalTask(ctx, t.ID, signal); err != nil {
			return err
		}
	}
	return nil
}

// Exec runs a command in a running task.
func (r *Runner) Exec(ctx context.Context, name string, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	runs, err := r.reach(ctx, name)
	if err != nil {
		return driver.ExitResult{}, err
	}
	if len(runs) != 1 {
		return driver.ExitResult{}, errdefs.FailedPreconditionf("task %q is not running.", name)
	}
	if !runs[0].Driver.Info().Capabilities.Exec {
		return driver.ExitResult{}, errdefs.Unimplementedf("driver of task %q does not support exec", name)
	}
	if missing := driver.MissingExecOptions(runs[0].Driver.Info().Capabilities, opts); len(missing) > 0 {
		return driver.ExitResult{}, errdefs.Unimplementedf("the driver of task %q runs commands only with the %s of the task itself", name, strings.Join(missing, ", "))
	}
	return runs[0].Driver.ExecTask(ctx, runs[0].ID, opts, stream)
}

// NoteDriverEvent adds an event that the named driver reports for one of its tasks. It
// returns false if the alloc has no such task, or if another driver runs it: a driver must
// not report events of foreign tasks.
func (r *Runner) NoteDriverEvent(of string, ev driver.TaskEvent) bool {
	r.mu.Lock()
	name := r.nameOf(ev.TaskID)
	owned := name != "" && r.tasks[name].job.Driver == of
	r.mu.Unlock()
	if !owned {
		return false
	}
	if ev.Progress != nil {
		r.noteProgress(ev.TaskID, *ev.Progress)
	}
	if ev.Progress != nil && ev.Message == "" {
		return true
	}
	details := map[string]string{"driver_message": ev.Message}
	for k, v := range ev.Annotations {
		details[k] = v
	}
	r.post(name, task.Note{Event: model.TaskEvent{
		Type: model.TaskDriverMessage, DriverMessage: ev.Message, DisplayMessage: ev.Message, Details: details,
	}})
	return true
}
