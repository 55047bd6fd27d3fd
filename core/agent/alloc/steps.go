// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Names of the steps of a start, in order.
const (
	StepDependency = "dependencies" // waiting for other tasks of the group
	StepQueue      = "queue"        // waiting for others that start on this node
	StepDirectory  = "alloc directory"
	StepSecrets    = "secrets"
	StepPayload    = "dispatch payload"
	StepDevices    = "devices"
	StepArtifacts  = "artifacts"
	StepTemplates  = "templates"
	StepIdentities = "identities"
	StepLogin      = "login"
	StepNetwork    = "network"
	StepVolumes    = "volumes"
	StepDriver     = "driver start"
	// StepDriverFolders makes the folders of a task that is a CSI driver.
	StepDriverFolders = "folders of the CSI driver"
)

// Limits are the time limits of the steps of a start. A step that exceeds its limit
// has failed; the restart policy decides about a retry.
type Limits struct {
	Queue      time.Duration // waiting for a slot among the node's concurrent starts
	Disk       time.Duration // each step that uses only the node's disk
	Artifacts  time.Duration // each artifact of a task
	Driver     time.Duration // the driver's start, which may fetch an image
	Network    time.Duration // making or repairing the group's network, for which a driver may fetch an image
	Volumes    time.Duration // staging or publishing the group's volumes
	Identities time.Duration // getting tokens from the servers
	Data       time.Duration // fetching the data of the previous alloc from another node
	// Templates limits one attempt at a first rendering. Missing data is awaited in
	// the next attempt, as long as the task is wanted.
	Templates time.Duration
	// Slow is the duration after which a step is reported as an event.
	Slow time.Duration
	// Lend is how long a start keeps its slot among the node's concurrent starts: a
	// longer start waits for something else and needs no resources.
	Lend time.Duration
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{
		Queue: time.Hour, Disk: 2 * time.Minute, Artifacts: 35 * time.Minute, Driver: 31 * time.Minute, Templates: 10 * time.Minute,
		Data: time.Hour, Network: 10 * time.Minute, Volumes: 10 * time.Minute, Identities: 10 * time.Minute,
		Slow: 30 * time.Second, Lend: 5 * time.Second,
	}
}

// StepStatus is the current step of a task's start.
type StepStatus struct {
	Task      string
	Step      string // "" when no start is under way
	Since     time.Time
	Deadline  time.Time // zero if somebody else ends it
	Detail    string    // what the step waits for, if it is known
	LastError string    // error of the last failed start
	// Progress is the driver's progress of its start; nil if the driver reports none.
	Progress *StartProgress
}

// Steps returns the current step of every task's start, in the order of the group. While
// the group is being prepared, that is the step of the group for which all tasks wait.
func (r *Runner) Steps() []StepStatus {
	var out []StepStatus
	var details []func() string // called without the runner's lock, because they may call the runner
	r.mu.Lock()
	for _, t := range r.group.Tasks {
		if run := r.tasks[t.Name]; run != nil {
			s := run.at
			detail := run.detail
			if group, waits := r.groupStatus(); s.Step == "" && waits {
				s, detail = group, nil
			}
			if held, waits := r.heldBack(t.Name); s.Step == "" && waits {
				s, detail = held, nil
			}
			s.Task = t.Name
			out, details = append(out, s), append(details, detail)
		}
	}
	r.mu.Unlock()
	for i, detail := range details {
		if detail != nil {
			out[i].Detail = detail()
		}
	}
	return out
}

// step is one step of a start.
type step struct {
	name   string
	limit  time.Duration
	detail func() string // says what it waits for; may be nil
	do     func(ctx context.Context) error
}

// stepError is the error of a failed step.
type stepError struct {
	cause task.Cause
	err   error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// causeOf returns the step that failed, for the event of a failed start.
func causeOf(err error) task.Cause {
	var s *stepError
	if errors.As(err, &s) {
		return s.cause
	}
	return task.InSetup
}

// runStep runs a step within its limit. A step that ignores its context is abandoned;
// the next start of the task first waits for its end, so that two never work on the
// same files.
func (r *Runner) runStep(ctx context.Context, name string, s step) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	t, before := r.enterStep(name, s)
	defer r.leaveStep(t)
	slow := time.AfterFunc(r.cfg.Limits.Slow, func() { r.noteSlow(name, t, s) })
	defer slow.Stop()
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			r.leave(t, before)
			return r.overdue(ctx, s, "an earlier try of it has not ended either")
		}
	}
	done := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		done <- r.survived(s.name, s.do)(ctx)
	}()
	answered, err := awaitAnswer(ctx, done)
	switch {
	case !answered:
		r.leave(t, over)
		return r.overdue(ctx, s, "it does not answer")
	case err != nil && ctx.Err() != nil:
		return r.overdue(ctx, s, err.Error())
	}
	return err
}

// survived wraps do so that it returns a panic as an error: a defect in a step, which works
// on users' input, must cost only its task and not the agent.
func (r *Runner) survived(step string, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		defer panics.Handle(func(p *panics.Panic) {
			r.logger.Error("a step panicked, which is a defect of Drover; the step fails", p.Fields("step", step)...)
			err = errdefs.Internalf("step %q failed because of a defect of Drover: %v; please report it with the agent's log", step, p.Value)
		})
		return do(ctx)
	}
}

// awaitAnswer waits for the error of a call that ends with ctx. Most calls heed their
// context, so they get a moment to clean up. It returns false for one that does not.
func awaitAnswer(ctx context.Context, done <-chan error) (answered bool, err error) {
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	grace := time.NewTimer(stepGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return true, err
	case <-grace.C:
		return false, nil
	}
}

// leave records an abandoned step that is still running.
func (r *Runner) leave(t *taskRun, over <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.left = over
}

// stepGrace is how long the end of a cancelled step is awaited.
const stepGrace = time.Second

// overdue returns the error of a step whose context has ended.
func (r *Runner) overdue(ctx context.Context, s step, why string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errdefs.DeadlineExceededf("step %q did not end within %s: %s", s.name, s.limit, why)
	}
	return errdefs.Canceledf("step %q was given up", s.name)
}

func (r *Runner) enterStep(name string, s step) (*taskRun, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[name]
	now := r.cfg.Now()
	t.at = StepStatus{Step: s.name, Since: now, Deadline: now.Add(s.limit), LastError: t.at.LastError}
	t.detail = s.detail
	before := t.left
	t.left = nil
	return t, before
}

func (r *Runner) leaveStep(t *taskRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.at, t.detail = StepStatus{LastError: t.at.LastError}, nil
}

// noteSlow adds an event for a step that takes long.
func (r *Runner) noteSlow(name string, t *taskRun, s step) {
	detail := ""
	if s.detail != nil {
		detail = s.detail()
	}
	r.mu.Lock()
	current := t.at
	r.mu.Unlock()
	if current.Step != s.name || r.ctx.Err() != nil {
		return
	}
	ev := model.TaskEvent{Type: model.TaskHookMessage}
	switch {
	case s.name == StepTemplates && detail != "":
		ev.Type, ev.Message = templateEvent, detail
	default:
		ev.Message = fmt.Sprintf("step %q has taken %s; it ends at the latest after %s", s.name, r.cfg.Limits.Slow, s.limit)
		if detail != "" {
			ev.Message += ": " + detail
		}
	}
	r.note(name, ev)
}

// note adds an event that says its message.
func (r *Runner) note(name string, ev model.TaskEvent) {
	if ev.DisplayMessage == "" {
		ev.DisplayMessage = ev.Message
	}
	if ev.Details == nil {
		ev.Details = map[string]string{"message": ev.Message}
	}
	r.post(name, task.Note{Event: ev})
}

// inTurn runs f as one of the node's concurrent starts.
func (r *Runner) inTurn(ctx context.Context, name string, f func() error) error {
	select {
	case r.cfg.Starts <- struct{}{}:
	default:
		if err := r.queue(ctx, name); err != nil {
			return err
		}
	}
	release := sync.OnceFunc(func() { <-r.cfg.Starts })
	lent := time.AfterFunc(r.cfg.Limits.Lend, release)
	defer lent.Stop()
	defer release()
	return f()
}

func (r *Runner) queue(ctx context.Context, name string) error {
	return r.runStep(ctx, name, step{name: StepQueue, limit: r.cfg.Limits.Queue, do: func(ctx context.Context) error {
		select {
		case r.cfg.Starts <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
}
