// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package shelldriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TaskStats implements driver.Driver; it measures only resident memory.
func (d *Driver) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
	return driver.Every(ctx, interval, d.sample)
}

func (d *Driver) sample(context.Context) []driver.TaskStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []driver.TaskStats
	for id, t := range d.tasks {
		if _, ended := t.result(); ended {
			continue
		}
		s := driver.TaskStats{TaskID: id, Time: time.Now()}
		if body, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", t.PID)); err == nil {
			if fields := strings.Fields(string(body)); len(fields) > 1 {
				pages, _ := strconv.ParseUint(fields[1], 10, 64) // the kernel writes only digits
				s.Memory.RSS, s.Memory.Measured = pages*uint64(os.Getpagesize()), []string{"RSS"}
			}
		}
		out = append(out, s)
	}
	return out
}

// TaskEvents implements driver.Driver; this driver has no events.
func (d *Driver) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	go func() {
		<-ctx.Done()
		close(out)
	}()
	return out, nil
}

// ExecTask implements driver.Driver; it does not support terminals.
func (d *Driver) ExecTask(ctx context.Context, id string, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	t, err := d.task(id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	if _, ended := t.result(); ended {
		return driver.ExitResult{}, errdefs.FailedPreconditionf("task %q does not run", id)
	}
	if t.Cgroup.Frozen() {
		return driver.ExitResult{}, errdefs.FailedPreconditionf("task %q is paused; resume it first", id)
	}
	if opts.TTY {
		return driver.ExitResult{}, errdefs.Unimplementedf("this driver has no terminals")
	}
	if len(opts.Command) == 0 {
		return driver.ExitResult{}, errdefs.InvalidArgumentf("no command given")
	}
	cmd := exec.CommandContext(ctx, opts.Command[0], opts.Command[1:]...)
	cmd.Env, cmd.Dir = slices.Concat(t.Env, t.secrets), cmp.Or(opts.Directory, t.Dir)
	for name, value := range opts.Env {
		cmd.Env = append(slices.Clip(cmd.Env), name+"="+value) // if a name occurs twice, the last value counts
	}
	// A session of its own, so that its children can be killed with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = stream.Stdout, stream.Stderr
	// Not cmd.Stdin: Wait would wait for a Read that may never return.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return driver.ExitResult{}, fmt.Errorf("make the input: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return driver.ExitResult{}, errdefs.InvalidArgumentf("run %q: %w", opts.Command[0], err)
	}
	go func() {
		if stream.Stdin != nil {
			_, _ = io.Copy(stdin, stream.Stdin) // the command may end before its input does
		}
		_ = stdin.Close()
	}()
	err = cmd.Wait()
	if ctx.Err() != nil {
		return driver.ExitResult{}, ctx.Err()
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) && !errors.Is(err, exec.ErrWaitDelay) { // a child of the command may keep its output open
		return driver.ExitResult{}, fmt.Errorf("run %q: %w", opts.Command[0], err)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return driver.ExitResult{ExitCode: 128 + int(status.Signal()), Signal: int(status.Signal())}, nil
	}
	return driver.ExitResult{ExitCode: cmd.ProcessState.ExitCode()}, nil
}
