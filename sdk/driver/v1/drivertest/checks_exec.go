// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func canExec(c driver.Capabilities) bool { return c.Exec }

var execChecks = []check{
	{"exec runs a command with input, output and exit code", canExec, checkExec},
	{"exec returns though its input stays open", canExec, checkExecOpenInput},
	{"exec of a command that does not exist is refused", canExec, checkExecMissing},
	{"exec with a terminal is a terminal and can be resized", canExec, checkExecTTY},
	{"exec ends with its context", canExec, checkExecCancel},
	{"exec in a task that has ended is refused", canExec, checkExecEnded},
}

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func checkExec(b *bench) {
	config, _ := b.start("sleep 600")
	var stdout, stderr buffer
	r, err := b.d.ExecTask(b.ctx, config.ID,
		driver.ExecOptions{Command: []string{"/bin/sh", "-c", "cat; echo problem >&2; exit 5"}},
		driver.ExecStream{Stdin: strings.NewReader("typed"), Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		b.t.Fatalf("ExecTask: %v", err)
	}
	if r.ExitCode != 5 || stdout.String() != "typed" || stderr.String() != "problem\n" {
		b.t.Errorf("result %+v, stdout %q, stderr %q", r, stdout.String(), stderr.String())
	}
	status, err := b.d.InspectTask(b.ctx, config.ID)
	if err != nil || status.State != driver.TaskRunning {
		b.t.Errorf("after it the task is %+v, %v", status, err)
	}
}

func checkExecOpenInput(b *bench) {
	config, _ := b.start("sleep 600")
	open, writer := io.Pipe()
	defer writer.Close()
	var stdout buffer
	r, err := b.d.ExecTask(b.ctx, config.ID, driver.ExecOptions{Command: []string{"echo", "done"}},
		driver.ExecStream{Stdin: open, Stdout: &stdout, Stderr: io.Discard})
	if err != nil || r.ExitCode != 0 || stdout.String() != "done\n" {
		b.t.Errorf("result %+v, %v, stdout %q", r, err, stdout.String())
	}
}

func checkExecMissing(b *bench) {
	config, _ := b.start("sleep 600")
	r, err := b.d.ExecTask(b.ctx, config.ID, driver.ExecOptions{Command: []string{"/no/such/command"}},
		driver.ExecStream{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	if !errdefs.IsInvalidArgument(err) {
		b.t.Errorf("result %+v, class %s, %v", r, errdefs.ClassOf(err), err)
	}
}

func checkExecTTY(b *bench) {
	config, _ := b.start("sleep 600")
	input, writer := io.Pipe()
	defer writer.Close()
	var stdout buffer
	resize := make(chan driver.TerminalSize, 1)
	done := make(chan error, 1)
	go func() {
		_, err := b.d.ExecTask(b.ctx, config.ID,
			driver.ExecOptions{Command: []string{"/bin/sh", "-c", "stty size; until [ \"$(stty size)\" = '44 120' ]; do read x; done; stty size; tty"}, TTY: true, Size: driver.TerminalSize{Height: 33, Width: 101}},
			driver.ExecStream{Stdin: input, Stdout: &stdout, Stderr: io.Discard, Resize: resize})
		done <- err
	}()
	b.eventually("the first size, or a refusal", func() bool { return len(done) > 0 || strings.Contains(stdout.String(), "33 101") })
	if len(done) == 0 {
		resize <- driver.TerminalSize{Height: 44, Width: 120}
		b.eventually("the new size was taken", func() bool { return len(resize) == 0 })
		// Nothing says when the resize was carried out, so the command, which
		// looks again at each line, gets lines until it sees it.
		go func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := writer.Write([]byte("go\n")); err != nil {
					return
				}
			}
		}()
	}
	err := <-done
	if errdefs.IsUnimplemented(err) {
		b.t.Skip("the driver has no terminals")
	}
	if err != nil {
		b.t.Fatalf("ExecTask: %v", err)
	}
	out := stdout.String()
	if !strings.Contains(out, "33 101") || !strings.Contains(out, "44 120") || strings.Contains(out, "not a tty") {
		b.t.Errorf("output %q", out)
	}
}

func checkExecCancel(b *bench) {
	config, _ := b.start("sleep 600")
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var stdout buffer
	done := make(chan error, 1)
	go func() {
		_, err := b.d.ExecTask(ctx, config.ID, driver.ExecOptions{Command: []string{"/bin/sh", "-c", "echo up; exec sleep 600"}},
			driver.ExecStream{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: io.Discard})
		done <- err
	}()
	b.eventually("the command runs", func() bool { return stdout.String() == "up\n" })
	cancel()
	select {
	case err := <-done:
		if err == nil || (!errdefs.IsCanceled(err) && !errors.Is(err, context.Canceled)) {
			b.t.Errorf("class %s, %v; want Canceled", errdefs.ClassOf(err), err)
		}
	case <-b.ctx.Done():
		b.t.Error("exec goes on after its context ended")
	}
}

func checkExecEnded(b *bench) {
	config, _ := b.start("exit 0")
	b.wait(config.ID)
	_, err := b.d.ExecTask(b.ctx, config.ID, driver.ExecOptions{Command: []string{"true"}},
		driver.ExecStream{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	if !errdefs.IsFailedPrecondition(err) {
		b.t.Errorf("class %s, %v", errdefs.ClassOf(err), err)
	}
}
