// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/isolation"
)

// join runs a command in the sandbox of an isolated task: with the same namespaces,
// root, cgroups, user, capabilities and seccomp filter.
func join(ctx context.Context, c *supervisor.Client, spec *supervisor.Spec, own *ownGroup, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	j, err := newJoiner(ctx, c, spec, own, opts)
	if err != nil {
		return driver.ExitResult{}, err
	}
	defer j.target.Close()
	if opts.TTY {
		err = j.terminal(ctx, opts, stream)
	} else {
		err = j.pipes(ctx, stream)
	}
	if ctx.Err() != nil {
		return driver.ExitResult{}, ctx.Err()
	}
	if err != nil {
		return driver.ExitResult{}, j.explain(err)
	}
	if ws := j.state.Sys().(syscall.WaitStatus); ws.Signaled() {
		return driver.ExitResult{ExitCode: 128 + int(ws.Signal()), Signal: int(ws.Signal())}, nil
	}
	return driver.ExitResult{ExitCode: j.state.ExitCode()}, nil
}

// beside returns a function that calls another one in the namespaces of a task that is not
// isolated: the network of its group and, if it has mounts, the mounts. leave frees them.
func beside(ctx context.Context, c *supervisor.Client, spec *supervisor.Spec) (in inside, leave func(), err error) {
	if len(spec.Mounts) == 0 {
		return func(f func() error) error {
			return isolation.Within(nil, spec.NetworkNS, func(int) error { return f() })
		}, func() {}, nil
	}
	status, err := c.Inspect(ctx, spec.ID)
	if err != nil {
		return nil, nil, err
	}
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", status.PID))
	// While the supervisor does not report the task's end, the pid has not been reused.
	if now, again := c.Inspect(ctx, spec.ID); again == nil && now.Exit != nil {
		err = errdefs.FailedPreconditionf("exec in task %q: it has ended", spec.ID)
	} else if err = errors.Join(err, again); err != nil {
		err = errdefs.Abortedf("exec in task %q: join its mounts: %w", spec.ID, err)
	}
	if err != nil {
		if mounts != nil {
			_ = mounts.Close()
		}
		return nil, nil, err
	}
	return func(f func() error) error {
		return isolation.WithinMounts(int(mounts.Fd()), spec.NetworkNS, f)
	}, func() { _ = mounts.Close() }, nil
}

// onItsCores has commands beside a task run on the cores of its process, where its cgroup does
// not see to that.
func onItsCores(task supervisor.Status, in inside) inside {
	if cgroup.HasCores(task.Cgroup) {
		return in
	}
	return func(f func() error) error {
		return in(func() error { return cgroup.Beside(task.PID, f) })
	}
}

// joiner is one command that is being started in a sandbox.
type joiner struct {
	id      string
	target  *isolation.Target
	own     *ownGroup
	cgroups []string
	config  isolation.Config
	process isolation.Process
	state   *os.ProcessState
}

func newJoiner(ctx context.Context, c *supervisor.Client, spec *supervisor.Spec, own *ownGroup, opts driver.ExecOptions) (*joiner, error) {
	status, err := c.Inspect(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	groups, err := cgroup.FindCgroups()
	if err != nil {
		return nil, err
	}
	group := groups.Open(status.Group)
	j := &joiner{id: spec.ID, own: own, cgroups: own.in(group.Present(), group.Dir), config: spec.Sandbox.Config}
	j.config.Command = opts.Command[0]
	j.process = isolation.Process{Args: opts.Command, Env: spec.Env}
	if u := spec.User; u != nil {
		j.process.User = isolation.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
	}
	j.target, err = isolation.OpenTarget(status.PID)
	// While the supervisor does not report the task's end, the pid has not been reused.
	if now, again := c.Inspect(ctx, spec.ID); again == nil && now.Exit != nil {
		err = errdefs.FailedPreconditionf("exec in task %q: it has ended", spec.ID)
	} else {
		err = errors.Join(err, again)
	}
	if err != nil {
		if j.target != nil {
			j.target.Close()
		}
		return nil, err
	}
	return j, nil
}

func (j *joiner) explain(err error) error {
	var command *isolation.CommandError
	if errors.As(err, &command) {
		return errdefs.InvalidArgumentf("exec in task %q: %w", j.id, err)
	}
	if errdefs.ClassOf(err) != errdefs.Internal {
		return err
	}
	return errdefs.Abortedf("exec in task %q: %w", j.id, err)
}

// run waits for the command. If ctx ends, it kills the command and all processes that it
// has started.
func (j *joiner) run(ctx context.Context, pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find the command again: %w", err)
	}
	ended := make(chan struct{})
	var killing sync.WaitGroup
	killing.Go(func() {
		select {
		case <-ctx.Done():
			j.own.kill()
			_ = syscall.Kill(-pid, syscall.SIGKILL) // not reaped yet, so the pid has not been reused
		case <-ended:
		}
	})
	j.state, err = process.Wait()
	close(ended)
	killing.Wait()
	return err
}

func (j *joiner) terminal(ctx context.Context, opts driver.ExecOptions, stream driver.ExecStream) error {
	size := windowSize(opts.Size)
	joined, err := isolation.Enter(j.target, &j.config, j.cgroups, j.process, &isolation.Size{Rows: size.Rows, Columns: size.Cols})
	if err != nil {
		return err
	}
	return serveTTY(joined.Terminal, stream, func() error { return j.run(ctx, joined.PID) })
}

func (j *joiner) pipes(ctx context.Context, stream driver.ExecStream) error {
	var ours, theirs [3]*os.File
	defer func() {
		for _, f := range append(ours[:], theirs[:]...) {
			if f != nil {
				_ = f.Close() // usually it is already closed
			}
		}
	}()
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	for i, f := range theirs {
		j.process.Files[i] = int(f.Fd())
	}
	joined, err := isolation.Enter(j.target, &j.config, j.cgroups, j.process, nil)
	if err != nil {
		return err
	}
	for _, f := range theirs {
		_ = f.Close() // the command has its own copy
	}
	go func() {
		if stream.Stdin != nil {
			_, _ = io.Copy(ours[0], stream.Stdin) // a command need not read its input
		}
		_ = ours[0].Close()
	}()
	var copying sync.WaitGroup
	for i, to := range []io.Writer{stream.Stdout, stream.Stderr} {
		if to == nil {
			to = io.Discard
		}
		copying.Go(func() { _, _ = io.Copy(to, ours[i+1]) }) // output is discarded if the client is gone
	}
	err = j.run(ctx, joined.PID)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		copying.Wait()
	}()
	select {
	case <-copied:
	case <-time.After(lingering): // a process that the command left behind holds its outputs open
		_ = ours[1].SetReadDeadline(time.Now())
		_ = ours[2].SetReadDeadline(time.Now())
		<-copied
	}
	return err
}
