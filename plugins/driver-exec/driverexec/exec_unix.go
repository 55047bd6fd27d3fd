// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package driverexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// lingering is the time for which output is still read after a command has ended, if
// processes it left behind hold the output open.
const lingering = time.Second

// ExecTask implements driver.Driver. The command runs beside the task with the same
// user, environment and directory, below its cgroup. It is a child of this process and ends
// with its stream, with all processes that it has started.
func (d shared) ExecTask(ctx context.Context, id string, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	c, spec, status, err := d.execTarget(ctx, id, opts)
	if err != nil {
		return driver.ExitResult{}, err
	}
	own := newOwnGroup(status.Cgroup)
	defer own.close()
	if spec.Sandbox != nil {
		return join(ctx, c, spec, own, opts, stream)
	}
	in, leave, err := beside(ctx, c, spec)
	if err != nil {
		return driver.ExitResult{}, err
	}
	defer leave()
	in = onItsCores(status, in)
	var cmd *exec.Cmd
	err = in(func() (err error) {
		cmd, err = execCommand(ctx, id, spec, own, opts)
		return err
	})
	if err != nil {
		return driver.ExitResult{}, err
	}
	if opts.TTY {
		err = runTTY(cmd, in, opts, stream)
	} else {
		err = runPipes(cmd, in, stream)
	}
	if ctx.Err() != nil {
		return driver.ExitResult{}, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		if cmd.ProcessState == nil {
			return driver.ExitResult{}, errdefs.InvalidArgumentf("exec %q in task %q: %w", opts.Command, id, err)
		}
		return driver.ExitResult{}, errdefs.Abortedf("exec %q in task %q: copy its output: %w", opts.Command, id, err)
	}
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return driver.ExitResult{ExitCode: 128 + int(ws.Signal()), Signal: int(ws.Signal())}, nil
	}
	return driver.ExitResult{ExitCode: cmd.ProcessState.ExitCode()}, nil
}

// execTarget finds a running task.
func (d shared) execTarget(ctx context.Context, id string, opts driver.ExecOptions) (*supervisor.Client, *supervisor.Spec, supervisor.Status, error) {
	c, err := d.Of(id)
	if err != nil {
		return nil, nil, supervisor.Status{}, err
	}
	spec, status, err := c.Spec(ctx, id)
	if err != nil {
		return nil, nil, supervisor.Status{}, err
	}
	if status.Exit != nil {
		return nil, nil, supervisor.Status{}, errdefs.FailedPreconditionf("exec in task %q: it has ended", id)
	}
	if len(opts.Command) == 0 {
		return nil, nil, supervisor.Status{}, errdefs.InvalidArgumentf("exec in task %q: no command given", id)
	}
	if supervised.Paused(status) {
		return nil, nil, supervisor.Status{}, errdefs.FailedPreconditionf("exec in task %q: it is paused; resume it first", id)
	}
	if err := d.apply(&spec, opts); err != nil {
		return nil, nil, supervisor.Status{}, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("exec in task %q: %w", id, err))
	}
	return c, &spec, status, nil
}

// apply replaces the task's settings by the options of a command.
func (d shared) apply(spec *supervisor.Spec, opts driver.ExecOptions) (err error) {
	if opts.User != "" {
		if spec.User, err = d.userOf(opts.User); err != nil {
			return err
		}
	}
	if dir := opts.Directory; dir != "" {
		if !filepath.IsAbs(dir) {
			return errdefs.InvalidArgumentf("directory %q is not absolute", dir)
		}
		if spec.Sandbox != nil {
			spec.Sandbox.WorkDir = dir
		} else if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return errdefs.InvalidArgumentf("there is no directory %q: %w", dir, err)
		}
		spec.Dir = dir
	}
	env := environ(slices.Concat(spec.Env, spec.Secrets))
	for name, value := range opts.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return errdefs.InvalidArgumentf("%q is not the name of a variable", name)
		}
		env[name] = value
	}
	spec.Env = supervised.Environment(env, nil)
	return nil
}

// environ is the inverse of supervised.Environment.
func environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}

func execCommand(ctx context.Context, id string, spec *supervisor.Spec, own *ownGroup, opts driver.ExecOptions) (*exec.Cmd, error) {
	program, err := lookUp(spec.Dir, opts.Command[0], environ(spec.Env)["PATH"])
	if err != nil {
		return nil, errdefs.InvalidArgumentf("exec in task %q: %w", id, err)
	}
	cmd := exec.CommandContext(ctx, program, opts.Command[1:]...)
	cmd.Args[0] = opts.Command[0]
	cmd.Env, cmd.Dir, cmd.WaitDelay = spec.Env, spec.Dir, lingering
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u := spec.User; u != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	own.have(cmd)
	// including all processes that it started
	cmd.Cancel = func() error {
		own.kill()
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return cmd, nil
}

// inside calls a function in the namespaces of a task that is not isolated.
type inside func(func() error) error

func runPipes(cmd *exec.Cmd, in inside, stream driver.ExecStream) error {
	cmd.Stdout, cmd.Stderr = stream.Stdout, stream.Stderr
	if stream.Stdin != nil {
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		// The copy may block in a read after the command has ended. It returns when the
		// stream ends.
		go func() {
			_, _ = io.Copy(stdin, stream.Stdin) // a command need not read its input
			_ = stdin.Close()
		}()
	}
	if err := in(cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

func runTTY(cmd *exec.Cmd, in inside, opts driver.ExecOptions, stream driver.ExecStream) error {
	var terminal *os.File
	err := in(func() (err error) {
		terminal, err = pty.StartWithSize(cmd, windowSize(opts.Size))
		return err
	})
	if err != nil {
		return err
	}
	return serveTTY(terminal, stream, cmd.Wait)
}

// serveTTY copies between a terminal and a stream until wait returns, and closes the
// terminal.
func serveTTY(terminal *os.File, stream driver.ExecStream, wait func() error) error {
	if stream.Stdin != nil {
		go func() {
			const endOfInput = "\x04"
			_, _ = io.Copy(terminal, stream.Stdin) // the copy fails when the terminal is closed
			_, _ = io.WriteString(terminal, endOfInput)
		}()
	}
	ended, resized := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(resized)
		for {
			select {
			case size := <-stream.Resize:
				_ = pty.Setsize(terminal, windowSize(size)) // resizing is best effort
			case <-ended:
				return
			}
		}
	}()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		out := stream.Stdout
		if out == nil {
			out = io.Discard
		}
		_, _ = io.Copy(out, terminal) // reading a closed terminal returns EIO
	}()
	err := wait()
	close(ended)
	<-resized
	select {
	case <-copied:
	case <-time.After(lingering):
	}
	return errors.Join(err, closeTerminal(terminal))
}

func closeTerminal(terminal *os.File) error {
	if err := terminal.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func windowSize(s driver.TerminalSize) *pty.Winsize {
	if s == (driver.TerminalSize{}) {
		s = driver.TerminalSize{Height: 24, Width: 80}
	}
	return &pty.Winsize{Rows: uint16(s.Height), Cols: uint16(s.Width)}
}
