// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// handleState is the content of a handle.
type handleState struct {
	Endpoint  string     `json:"endpoint"`
	Container string     `json:"container"`
	Image     string     `json:"image"`
	TTY       bool       `json:"tty,omitempty"`
	Logs      logsTarget `json:"logs"`
}

// logsTarget is the place of a task's log files.
type logsTarget struct {
	Disabled     bool   `json:"disabled,omitempty"`
	Root         string `json:"root,omitempty"` // a directory that tasks cannot replace
	Stdout       string `json:"stdout,omitempty"`
	Stderr       string `json:"stderr,omitempty"`
	MaxFiles     int    `json:"max_files,omitempty"`
	MaxFileBytes int64  `json:"max_file_bytes,omitempty"`
}

const handleVersion = 1

// task is one container that belongs to a task.
type task struct {
	id    string
	d     *daemon
	state handleState
	// mounts is the value of the container's label labelMounts.
	mounts string
	// recovered means that an earlier process has copied output of this task.
	recovered bool

	// ended is closed when exit is set.
	ended chan struct{}
	// logged is closed when all output is in the log files.
	logged   chan struct{}
	stopLogs context.CancelFunc

	mu        sync.Mutex
	whenEnded func()
	startedAt time.Time
	endedAt   time.Time
	exit      *driver.ExitResult
	oom       bool // the OOM killer has killed a process of the task
	asked     bool // the exit needs no explanation: we sent a signal, or blame was already awaited
	dropped   uint64
	// followers is the number of calls that follow the output that the daemon keeps.
	// unfollowed is closed when there are none; nil if nobody waits for that.
	followers  int
	unfollowed chan struct{}
	// blamed is closed when oom is set.
	blamed chan struct{}
}

func newTask(id string, d *daemon, s handleState) *task {
	t := &task{id: id, d: d, state: s, ended: make(chan struct{}), logged: make(chan struct{}), blamed: make(chan struct{}), stopLogs: func() {}}
	return t
}

func (t *task) handle() (*driver.Handle, error) {
	state, err := json.Marshal(t.state)
	if err != nil {
		return nil, errdefs.Internalf("encode the handle of task %q: %w", t.id, err)
	}
	return &driver.Handle{TaskID: t.id, Version: handleVersion, State: state}, nil
}

func parseHandle(h *driver.Handle) (handleState, error) {
	var s handleState
	if h.Version < 1 || h.Version > handleVersion {
		return s, errdefs.InvalidArgumentf("recover task %q: handle version %d is not known to this driver; install the plugin that made it", h.TaskID, h.Version)
	}
	if err := json.Unmarshal(h.State, &s); err != nil || s.Container == "" || s.Endpoint == "" {
		return s, errdefs.InvalidArgumentf("recover task %q: its handle belongs to another driver", h.TaskID)
	}
	return s, nil
}

func (t *task) result() *driver.ExitResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exit
}

// settle inspects the container and records its end if it has ended. It may be
// called repeatedly.
func (t *task) settle(ctx context.Context) error {
	if t.result() != nil {
		return nil
	}
	c, err := t.d.inspect(ctx, t.state.Container)
	if errdefs.IsNotFound(err) {
		t.end(time.Now(), driver.ExitResult{ExitCode: -1, Err: "exit code unknown: container " + short(t.state.Container) + " was removed by someone else"})
		return nil
	}
	if err != nil {
		return err
	}
	t.note(c)
	return nil
}

// note updates the task from the daemon's state of the container.
func (t *task) note(c container.InspectResponse) {
	if c.State.Status == container.StateCreated {
		return // its start is still in progress
	}
	started, _ := time.Parse(time.RFC3339Nano, c.State.StartedAt) // the zero time if it is invalid
	t.mu.Lock()
	t.startedAt = started
	t.mu.Unlock()
	if running(c.State) {
		return
	}
	finished, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt)
	if err != nil || finished.Before(started) {
		finished = time.Now()
	}
	t.end(finished, exitResult(c.State))
}

func running(s *container.State) bool { return s.Running || s.Paused || s.Restarting }

// exitResult returns how a container ended. The daemon reports an end by signal n as
// exit code 128+n. It cannot be told from a shell that exits with such a code.
func exitResult(s *container.State) driver.ExitResult {
	r := driver.ExitResult{ExitCode: s.ExitCode, Err: s.Error}
	if n := s.ExitCode - 128; n > 0 && n <= maxSignal {
		r.Signal = n
	}
	// If only a child was OOM-killed, the task did not end because of it.
	if s.OOMKilled && s.ExitCode != 0 {
		outOfMemory(&r)
	}
	return r
}

// outOfMemory sets the reference's error text.
func outOfMemory(r *driver.ExitResult) {
	r.OOMKilled = true
	if r.Err == "" {
		r.Err = "OOM Killed"
	}
}

const maxSignal = 64

func (t *task) end(at time.Time, r driver.ExitResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit != nil {
		return
	}
	t.endedAt, t.exit = at, &r
	switch {
	case t.oom:
		t.amend() // some daemons send the event before they update the state
	case r.OOMKilled: // and some do not send it at all
		t.oom = true
		close(t.blamed)
		t.tellOutOfMemory()
	}
	close(t.ended)
	if t.whenEnded != nil {
		t.whenEnded()
	}
}

// amend adds the out-of-memory reason to an exit by SIGKILL. The caller holds t.mu.
func (t *task) amend() {
	if t.exit == nil || t.exit.ExitCode != killed {
		return
	}
	r := *t.exit
	outOfMemory(&r)
	t.exit = &r
}

// killed is the exit code after SIGKILL.
const killed = 128 + 9

// blame records that the OOM killer has killed a process of the task. The daemon may
// report this after the end of the task. It reports whether that is news.
func (t *task) blame() (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news = !t.oom || t.exit == nil
	if !t.oom {
		t.oom = true
		close(t.blamed)
	}
	t.amend()
	return news
}

// tellOutOfMemory emits an event. The killed process may be a child, so the task may
// keep running.
func (t *task) tellOutOfMemory() {
	t.d.events.tell(t.id, "The kernel killed a process of the task: it used more memory than it may have", nil)
}

// explain gives the daemon a moment to report an out-of-memory kill if the task
// ended by a SIGKILL that we did not send.
func (t *task) explain(ctx context.Context) {
	t.mu.Lock()
	known := t.asked || t.exit.OOMKilled || t.exit.ExitCode != killed
	t.mu.Unlock()
	if known {
		return
	}
	select {
	case <-t.blamed:
		return
	case <-time.After(blameGrace):
	case <-ctx.Done():
		return
	}
	if c, err := t.d.inspect(ctx, t.state.Container); err == nil && c.State.OOMKilled && t.blame() {
		t.tellOutOfMemory()
	}
	t.wasAsked() // explain waits only once per task
}

// blameGrace is the time after the end of a task within which the daemon may report
// the reason.
const blameGrace = 2 * time.Second

// wasAsked records that the end of the task needs no explanation.
func (t *task) wasAsked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = true
}

// atEnd registers do to be called when the task ends, or calls it at once if it has
// ended. nil removes the registration. do must not block. There is one registration
// at a time, by the log copier.
func (t *task) atEnd(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.whenEnded = do; do != nil && t.exit != nil {
		do()
	}
}

// await waits for the end of the task. It returns false if ctx ends first.
func (t *task) await(ctx context.Context) bool {
	select {
	case <-t.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// WaitTask implements driver.Driver.
func (d *Driver) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	t, err := d.of(id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	if !t.await(ctx) {
		return driver.ExitResult{}, fmt.Errorf("wait for task %q: %w", id, ctx.Err())
	}
	// Wait a little for the task's last output.
	select {
	case <-t.logged:
	case <-time.After(logGrace):
	case <-ctx.Done():
	}
	t.explain(ctx)
	return *t.result(), nil
}

// logGrace is the time that WaitTask waits for the rest of the output.
const logGrace = 2 * time.Second

// SignalTask implements driver.Driver.
func (d *Driver) SignalTask(ctx context.Context, id string, signal string) error {
	t, err := d.of(id)
	if err != nil {
		return err
	}
	if t.result() != nil {
		return errdefs.FailedPreconditionf("signal task %q: it has ended", id)
	}
	if signal == "" {
		return errdefs.InvalidArgumentf("signal task %q: no signal given", id)
	}
	t.wasAsked()
	err = t.d.kill(ctx, t.state.Container, signal)
	if err == nil {
		return nil
	}
	// If the container has ended, the daemon answers with a conflict.
	if serr := t.settle(ctx); serr == nil && t.result() != nil {
		return errdefs.FailedPreconditionf("signal task %q: it has ended", id)
	}
	return wrapTask(id, err)
}

// StopTask implements driver.Driver.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	t, err := d.of(id)
	if err != nil {
		return err
	}
	if t.result() != nil {
		return nil
	}
	t.wasAsked()
	// If the caller gives up, whenever that is, the task is stopped nevertheless.
	done := make(chan error, 1)
	d.work.Go(func() { done <- t.stop(d.ctx, id, timeout, signal) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop task %q: %w", id, ctx.Err())
	}
}

// stop sends the signal, and kills the task if it has not ended after timeout.
func (t *task) stop(ctx context.Context, id string, timeout time.Duration, signal string) error {
	_ = t.d.hold(ctx, t.state.Container, false) // a container that stays paused is killed
	if signal == "" {
		signal = "SIGTERM"
		if c, err := t.d.inspect(ctx, t.state.Container); err == nil && c.Config.StopSignal != "" {
			signal = c.Config.StopSignal // from the job's config or the image
		}
	}
	if err := t.d.kill(ctx, t.state.Container, signal); err != nil {
		if errdefs.IsInvalidArgument(err) {
			return wrapTask(id, err)
		}
		if serr := t.settle(ctx); serr != nil || t.result() == nil && errdefs.IsUnavailable(err) {
			return wrapTask(id, errors.Join(err, serr))
		}
	}
	return t.killAfter(ctx, timeout)
}

const (
	killRetry = time.Second
	killLimit = 5 * time.Minute // how long a kill is retried while the daemon is unreachable
)

// killAfter waits for the end of the task and kills it after timeout.
func (t *task) killAfter(ctx context.Context, timeout time.Duration) error {
	grace, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if t.await(grace) {
		return nil
	}
	limited, cancelKill := context.WithTimeout(ctx, killLimit)
	defer cancelKill()
	var err error
	for limited.Err() == nil {
		if err = t.d.kill(limited, t.state.Container, "SIGKILL"); err != nil {
			_ = t.settle(limited) // the error of the wait is reported
			if t.result() == nil {
				_ = t.d.hold(limited, t.state.Container, false) // it may be paused, and the next attempt reports an error
			}
		}
		retry, cancel := context.WithTimeout(limited, killRetry)
		over := t.await(retry)
		cancel()
		if over {
			return nil
		}
		_ = t.settle(limited) // the next attempt reports an error
	}
	return errdefs.Unavailablef("stop task %q: the Docker daemon does not stop its container: %w", t.id, errors.Join(err, limited.Err()))
}

// DestroyTask implements driver.Driver.
func (d *Driver) DestroyTask(ctx context.Context, ref driver.TaskRef, force bool) error {
	id := ref.ID // containers are found by their labels
	t, err := d.of(id)
	if err != nil {
		if err := d.destroyUnlearned(ctx, id, force); err != nil {
			return wrapTask(id, err)
		}
		d.unclaim(id)
		return nil
	}
	if t.result() == nil {
		if err := t.settle(ctx); err != nil && !force {
			return wrapTask(id, err)
		}
	}
	if t.result() == nil && !force {
		return errdefs.FailedPreconditionf("destroy task %q: it still runs; stop it first", id)
	}
	config, _, _ := d.now()
	if t.result() == nil {
		if err := t.killAfter(ctx, 0); err != nil {
			return wrapTask(id, err)
		}
	}
	t.drainLogs(ctx)
	t.drainFollowers(ctx)
	if config.GC.Container {
		if err := d.discard(ctx, t.d, t.state.Container, t.mounts); err != nil {
			return wrapTask(id, err)
		}
	}
	d.forget(t, config)
	return nil
}

// destroyUnlearned removes the containers of a task whose start was interrupted by
// the death of an earlier plugin process, before the agent got a handle.
func (d *Driver) destroyUnlearned(ctx context.Context, id string, force bool) error {
	config, _, _ := d.now()
	for _, x := range d.all() {
		list, err := x.ours(ctx, d.owner, labelTask+"="+id)
		if err != nil {
			return err
		}
		for _, c := range list {
			switch {
			case c.State == container.StateRunning && !force:
				return errdefs.FailedPreconditionf("destroy: container %s still runs; stop it first", short(c.ID))
			case config.GC.Container:
				err = d.discard(ctx, x, c.ID, c.Labels[labelMounts])
			case c.State == container.StateRunning:
				err = x.kill(ctx, c.ID, "SIGKILL")
			}
			if err != nil && !errdefs.IsNotFound(err) {
				return err
			}
			removeCursor(d.dir, c.ID)
		}
		d.sweepStages(ctx, x) // the interrupted start may have made mounts before it had a container
	}
	return nil
}

// forget releases the resources of the task in this process.
func (d *Driver) forget(t *task, config agentConfig) {
	t.stopLogs()
	d.mu.Lock()
	delete(d.known, t.id)
	delete(d.claimed, t.id)
	d.mu.Unlock()
	t.d.disown(t.state.Container)
	removeCursor(d.dir, t.state.Container)
	t.d.images.release(t.state.Image, t.id, time.Now(), config)
}
