// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// handleVersion is incremented when handle changes. Older versions must still be
// readable.
const handleVersion = 1

// handle contains what is needed to find a task again. The agent stores it on disk.
type handle struct {
	Dir string
	process
	StartedAt time.Time
}

// task is a task that this process knows.
type task struct {
	handle
	done   chan struct{} // closed when the task has ended
	result result        // set before done is closed
}

// adopt starts following a task whose runner was started by this or an earlier process.
func adopt(h handle) (*task, error) {
	t := &task{handle: h, done: make(chan struct{})}
	// Opening the FIFO does not block, and a Read returns when the runner has closed
	// its end.
	fd, err := syscall.Open(filepath.Join(h.Dir, "alive"), syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errdefs.NotFoundf("the task left no trace in %s", h.Dir)
	}
	if err != nil {
		return nil, errdefs.Unavailablef("look for the task's runner: %w", err)
	}
	alive := os.NewFile(uintptr(fd), "alive")
	go func() {
		defer alive.Close()
		_, _ = io.Copy(io.Discard, alive) // nobody writes to it: this waits for EOF
		t.end()
	}()
	return t, nil
}

// end reads the result, or records that there is none.
func (t *task) end() {
	body, err := os.ReadFile(filepath.Join(t.Dir, "result.json"))
	if err == nil {
		err = json.Unmarshal(body, &t.result)
	}
	if err != nil {
		t.kill() // its output is not read any more
		t.result = result{ExitedAt: time.Now(), Exit: driver.ExitResult{ExitCode: -1, Err: "exit code unknown: the task's runner was killed"}}
	}
	close(t.done)
}

func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// WaitTask implements driver.Driver.
func (d *Driver) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	t, err := d.find(id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	select {
	case <-t.done:
		return t.result.Exit, nil
	case <-ctx.Done():
		return driver.ExitResult{}, ctx.Err()
	}
}

// StopTask implements driver.Driver. The kill happens even if ctx ends before.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	if signal == "" {
		signal = "SIGTERM"
	}
	if err := t.signal(signal); err != nil && !errdefs.IsFailedPrecondition(err) {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-t.done:
		case <-timer.C:
		}
		t.kill() // including the children it left behind
		<-t.done
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var signals = map[string]syscall.Signal{
	"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGKILL": syscall.SIGKILL,
	"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGTERM": syscall.SIGTERM,
}

func (t *task) signal(name string) error {
	sig, ok := signals[name]
	if !ok {
		return errdefs.InvalidArgumentf("unknown signal %q", name)
	}
	if t.ended() {
		return errdefs.FailedPreconditionf("the task has ended")
	}
	if err := syscall.Kill(t.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return errdefs.Internalf("send %s: %w", name, err)
	}
	return nil
}

// SignalTask implements driver.Driver.
func (d *Driver) SignalTask(_ context.Context, id string, signal string) error {
	t, err := d.find(id)
	if err != nil {
		return err
	}
	return t.signal(signal)
}

// DestroyTask implements driver.Driver. The task may be one whose start is in progress,
// or whose start was interrupted when an earlier process of this driver was killed.
func (d *Driver) DestroyTask(ctx context.Context, ref driver.TaskRef, force bool) error {
	if err := d.giveUp(ctx, ref.ID, force); err != nil {
		return err
	}
	t, err := d.find(ref.ID)
	if err != nil {
		t, err = interrupted(ctx, ref)
	}
	if t == nil || err != nil {
		return err // nil if nothing is left of the task
	}
	if !t.ended() {
		if !force {
			return errdefs.FailedPreconditionf("task %q still runs; stop it first or use force", ref.ID)
		}
		t.kill()
		select {
		case <-t.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := os.RemoveAll(t.Dir); err != nil {
		return errdefs.Internalf("remove what is left of task %q: %w", ref.ID, err)
	}
	d.forget(ref.ID)
	return nil
}

// InspectTask implements driver.Driver.
func (d *Driver) InspectTask(_ context.Context, id string) (*driver.TaskStatus, error) {
	t, err := d.find(id)
	if err != nil {
		return nil, err
	}
	s := &driver.TaskStatus{ID: id, State: driver.TaskRunning, StartedAt: t.StartedAt, Attributes: map[string]string{"pid": strconv.Itoa(t.PID)}}
	if t.ended() {
		exit := t.result.Exit
		s.State, s.Exit, s.ExitedAt = driver.TaskExited, &exit, t.result.ExitedAt
	}
	return s, nil
}
