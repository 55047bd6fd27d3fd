// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ExecTask implements driver.Driver.
func (d *Driver) ExecTask(ctx context.Context, id string, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	var none driver.ExitResult
	t, err := d.of(id)
	if err != nil {
		return none, err
	}
	if len(opts.Command) == 0 || opts.Command[0] == "" {
		return none, errdefs.InvalidArgumentf("exec in task %q: no command given", id)
	}
	if t.result() != nil {
		return none, errdefs.FailedPreconditionf("exec in task %q: it has ended", id)
	}
	e := &execution{t: t, opts: opts, stream: stream, mark: markOf()}
	if err := e.create(ctx); err != nil {
		if serr := t.settle(ctx); serr == nil && t.result() != nil {
			return none, errdefs.FailedPreconditionf("exec in task %q: it has ended", id)
		}
		if c, cerr := t.d.inspect(ctx, t.state.Container); cerr == nil && c.State.Paused {
			return none, errdefs.FailedPreconditionf("exec in task %q: it is paused; resume it first", id)
		}
		return none, wrapTask(id, err)
	}
	r, err := e.run(ctx)
	if err != nil {
		return none, wrapTask(id, err)
	}
	return r, nil
}

// execution is one command that runs inside a container.
type execution struct {
	t      *task
	opts   driver.ExecOptions
	stream driver.ExecStream
	id     string
	head   head
	// mark is a variable in the environment of the command's processes. It tells them from other
	// processes of the container, whatever session they move to.
	mark string
}

// markOf returns a variable that no other command has.
func markOf() string { return "DROVER_COMMAND_ID=" + rand.Text() }

func (e *execution) create(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := e.t.d.api.Load().ExecCreate(limited, e.t.state.Container, client.ExecCreateOptions{
		TTY: e.opts.TTY, ConsoleSize: e.size(), AttachStdin: e.stream.Stdin != nil, AttachStdout: true, AttachStderr: true, Cmd: e.command(limited),
		User: e.opts.User, WorkingDir: e.opts.Directory, Env: append(environment(e.opts.Env), e.mark),
	})
	e.id = r.ID
	return e.t.d.failed(ctx, err, "prepare the command %q", e.opts.Command[0])
}

// apiWithSize is the first API version in which the size of a terminal can be set at
// creation.
const apiWithSize = "1.42"

// command returns the command line to run. With an older API, the terminal's size is
// set shortly after the command starts, when the command may already have read it.
// If the container has a shell, the shell sets the size before it runs the command.
func (e *execution) command(ctx context.Context) []string {
	s := e.size()
	if s.Height == 0 || !versions.LessThan(e.t.d.api.Load().ClientVersion(), apiWithSize) {
		return e.opts.Command
	}
	const shell = "/bin/sh"
	// The daemon's own way to look for a file in a container would mount the container's
	// sources again, and they are gone (see stage.go). So the file is looked up through
	// the container's process.
	r, err := e.t.d.api.Load().ContainerInspect(ctx, e.t.state.Container, client.ContainerInspectOptions{})
	if err != nil || r.Container.State == nil || !fileIn(r.Container.State.Pid, shell) {
		return e.opts.Command
	}
	set := fmt.Sprintf("stty rows %d cols %d 2>/dev/null; exec \"$@\"", s.Height, s.Width)
	return append([]string{shell, "-c", set, shell}, e.opts.Command...)
}

func (e *execution) size() client.ConsoleSize {
	s := e.opts.Size
	if !e.opts.TTY || s.Height <= 0 || s.Width <= 0 {
		return client.ConsoleSize{}
	}
	return client.ConsoleSize{Height: uint(s.Height), Width: uint(s.Width)}
}

// run attaches to the command, copies its streams until it ends, and returns its
// exit code.
func (e *execution) run(ctx context.Context) (driver.ExitResult, error) {
	var none driver.ExitResult
	attach, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(callLimit, cancel)
	conn, err := e.t.d.api.Load().ExecAttach(attach, e.id, client.ExecAttachOptions{TTY: e.opts.TTY, ConsoleSize: e.size()})
	if !patience.Stop() && err == nil {
		conn.Close()
	}
	if err != nil {
		return none, e.t.d.failed(ctx, err, "run the command %q", e.opts.Command[0])
	}
	defer conn.Close()
	if e.opts.TTY {
		e.resize(ctx, e.opts.Size)
		go e.resizes(attach)
	}
	if e.stream.Stdin != nil {
		go func() {
			_, _ = io.Copy(conn.Conn, e.stream.Stdin) // an error means that one side is gone
			_ = conn.CloseWrite()                     // an error means that the command has closed it
		}()
	}
	copied := make(chan error, 1)
	go func() { copied <- e.copy(conn.Reader) }()
	select {
	case <-copied: // if copying failed, the result of the command shows it
		return e.result(ctx)
	case <-ctx.Done():
		e.kill()
		conn.Close()
		<-copied
		return none, fmt.Errorf("exec of %q: %w", e.opts.Command[0], ctx.Err())
	}
}

// copy sends the command's output to the caller until it ends.
func (e *execution) copy(r io.Reader) error {
	stdout, stderr := orDiscard(e.stream.Stdout), orDiscard(e.stream.Stderr)
	if e.opts.TTY {
		_, err := io.Copy(stdout, io.TeeReader(r, &e.head))
		return err
	}
	_, err := stdcopy.StdCopy(io.MultiWriter(stdout, &e.head), io.MultiWriter(stderr, &e.head), r)
	return err
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// head stores the beginning of an output: if a command cannot be started, the daemon
// writes the reason there.
type head struct{ bytes.Buffer }

const maxHead = 512

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), maxHead-h.Len())])
	return len(p), nil
}

// The exit codes that the daemon gives to commands that cannot be started.
const (
	cannotRun = 126
	notThere  = 127
)

// result returns the command's exit code. The output may end shortly before the
// daemon knows the code.
func (e *execution) result(ctx context.Context) (driver.ExitResult, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		r, err := e.t.d.api.Load().ExecInspect(limited, e.id, client.ExecInspectOptions{})
		if err != nil {
			return driver.ExitResult{}, e.t.d.failed(ctx, err, "read how the command %q ended", e.opts.Command[0])
		}
		if !r.Running {
			if r.PID == 0 && (r.ExitCode == cannotRun || r.ExitCode == notThere) {
				return driver.ExitResult{}, errdefs.InvalidArgumentf("there is no command %q in the container that can be run: %s", e.opts.Command[0], bytes.TrimSpace(e.head.Bytes()))
			}
			out := driver.ExitResult{ExitCode: r.ExitCode}
			if n := r.ExitCode - 128; n > 0 && n <= maxSignal {
				out.Signal = n
			}
			return out, nil
		}
		if !pause(limited, wait) {
			return driver.ExitResult{}, errdefs.Unavailablef("read how the command %q ended: the Docker daemon reports that it still runs, but has closed its output", e.opts.Command[0])
		}
	}
}

func (e *execution) resize(ctx context.Context, s driver.TerminalSize) {
	if s.Height <= 0 || s.Width <= 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	// The terminal is created shortly after the command has started.
	for range 20 {
		_, err := e.t.d.api.Load().ExecResize(limited, e.id, client.ExecResizeOptions{Height: uint(s.Height), Width: uint(s.Width)})
		if err == nil || !pause(limited, 25*time.Millisecond) {
			return
		}
	}
}

func (e *execution) resizes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-e.stream.Resize:
			e.resize(ctx, s)
		}
	}
}

// kill kills the command and what it has started. The API has no request for this, so the
// processes themselves are killed if they run on this machine and are verified to be in this
// container.
func (e *execution) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	r, err := e.t.d.api.Load().ExecInspect(ctx, e.id, client.ExecInspectOptions{})
	if err == nil && r.Running && r.PID > 0 {
		killInside(r.PID, e.t.state.Container)
	}
	killMarked(e.mark, e.t.state.Container)
}
