// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var execChecks = []Check{
	{"exec", "exec runs a command with input, output and exit code", canExec, checkExec},
	{"exec-output", "exec returns when all output of its command is written", canExec, checkExecOutput},
	{"exec-open-input", "exec returns though its input stays open", canExec, checkExecOpenInput},
	{"exec-missing", "exec of a command that does not exist is refused", canExec, checkExecMissing},
	{"exec-terminal", "exec with a terminal is a terminal and can be resized", canExec, checkExecTTY},
	{"exec-context", "exec ends with its context, and its command with it", canExec, checkExecCancel},
	{"exec-user", "exec runs its command as the user that it names", canExecWith(driver.ExecUser), checkExecUser},
	{"exec-directory", "exec runs its command in the directory that it names", canExecWith(driver.ExecDirectory), checkExecDirectory},
	{"exec-environment", "exec adds variables to the environment of the task", canExecWith(driver.ExecEnvironment), checkExecEnvironment},
	{"exec-ended", "exec in a task that has ended is refused", canExec, checkExecEnded},
}

// buffer is a bytes.Buffer that may be read concurrently with writes.
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
	config, _ := b.start(forever)
	var stdout, stderr buffer
	r, err := b.d.ExecTask(b.ctx, config.ID,
		driver.ExecOptions{Command: []string{"/bin/sh", "-c", `cat; echo problem >&2; [ -z "$` + SecretVariable + `" ] || exit 6; exit 5`}},
		driver.ExecStream{Stdin: strings.NewReader("typed"), Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		b.t.Fatalf("ExecTask: %v", err)
	}
	if r.ExitCode != 5 || stdout.String() != "typed" || stderr.String() != "problem\n" {
		b.t.Errorf("result %+v, stdout %q, stderr %q", r, stdout.String(), stderr.String())
	}
	b.running(config.ID, "after an exec")
}

func checkExecOutput(b *bench) {
	config, _ := b.start(forever)
	const bytes = 3 << 20 // more than any pipe in between can hold
	var stdout buffer
	r, err := b.d.ExecTask(b.ctx, config.ID, driver.ExecOptions{Command: []string{"/bin/sh", "-c", fmt.Sprintf("head -c %d /dev/zero; echo last", bytes)}},
		driver.ExecStream{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: io.Discard})
	if err != nil || r.ExitCode != 0 {
		b.t.Fatalf("ExecTask: %+v, %v", r, err)
	}
	if out := stdout.String(); len(out) != bytes+len("last\n") || !strings.HasSuffix(out, "last\n") {
		b.t.Errorf("%d bytes of output came, want %d that end with the last line", len(out), bytes+len("last\n"))
	}
}

func checkExecOpenInput(b *bench) {
	config, _ := b.start(forever)
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
	config, _ := b.start(forever)
	r, err := b.d.ExecTask(b.ctx, config.ID, driver.ExecOptions{Command: []string{"/no/such/command"}},
		driver.ExecStream{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	if b.subject.Foreign && err == nil && r.ExitCode != 0 {
		return // Nomad's protocol cannot distinguish a missing command from one that fails
	}
	b.refused("an exec of a command that does not exist", err, errdefs.InvalidArgument)
}

func checkExecTTY(b *bench) {
	config, _ := b.start(forever)
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
		// Nothing reports when the resize took effect, so the command checks the size
		// for each input line, and the test sends lines until it sees the new size.
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
		b.t.Skipf("the driver has no terminals")
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
	config, _ := b.start(forever)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	script := "(" + beat + ") & echo up; wait" // what it has started ends with it
	if b.subject.Foreign {
		script = "echo up; " + beat
	}
	var stdout buffer
	done := make(chan error, 1)
	go func() {
		_, err := b.d.ExecTask(ctx, config.ID, driver.ExecOptions{Command: []string{"/bin/sh", "-c", script}},
			driver.ExecStream{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: io.Discard})
		done <- err
	}()
	b.eventually("the command runs", func() bool { return stdout.String() == "up\n" && beats(config) > 0 })
	cancel()
	select {
	case err := <-done:
		b.refused("an exec whose context ended", err, errdefs.Canceled)
	case <-b.ctx.Done():
		b.t.Errorf("exec goes on after its context ended")
	}
	b.eventually("the command of an exec whose context ended is gone", func() bool { return silent(config) })
}

func checkExecEnded(b *bench) {
	config, _ := b.start("exit 0")
	b.wait(config.ID)
	_, err := b.d.ExecTask(b.ctx, config.ID, driver.ExecOptions{Command: []string{"true"}},
		driver.ExecStream{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})
	b.refused("an exec in a task that has ended", err, errdefs.FailedPrecondition)
}

func canExecWith(option string) func(driver.Driver) bool {
	return func(d driver.Driver) bool {
		return canExec(d) && slices.Contains(d.Info().Capabilities.ExecOptions, option)
	}
}

// output runs a shell command in the task and returns what it prints.
func (b *bench) output(id, command string, opts driver.ExecOptions) (string, error) {
	opts.Command = []string{"/bin/sh", "-c", command}
	var stdout buffer
	r, err := b.d.ExecTask(b.ctx, id, opts, driver.ExecStream{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: io.Discard})
	if err == nil && !r.Successful() {
		err = fmt.Errorf("%q ended with %+v", command, r)
	}
	return strings.TrimSpace(stdout.String()), err
}

func checkExecUser(b *bench) {
	config, _ := b.start(forever)
	own, err := b.output(config.ID, "id -u", driver.ExecOptions{})
	if err != nil {
		b.t.Fatalf("ExecTask: %v", err)
	}
	other, id := "root", "0"
	if own == id {
		other, id = "nobody", "65534"
	}
	got, err := b.output(config.ID, "id -u", driver.ExecOptions{User: other})
	if errdefs.IsPermissionDenied(err) || errdefs.IsInvalidArgument(err) {
		b.t.Skipf("the driver lets no command run as %s here: %v", other, err)
	}
	if err != nil || got != id {
		b.t.Errorf("a command as %s has the user id %q, %v; want %s", other, got, err, id)
	}
	_, err = b.output(config.ID, "id -u", driver.ExecOptions{User: "drivertest-nobody-has-this-name"})
	b.refused("a command as a user that does not exist", err, errdefs.InvalidArgument, errdefs.NotFound)
}

func checkExecDirectory(b *bench) {
	config, _ := b.start(forever)
	const dir = "/dev" // every system has it, and no task runs in it
	if got, err := b.output(config.ID, "pwd", driver.ExecOptions{Directory: dir}); err != nil || got != dir {
		b.t.Errorf("a command in %s is in %q, %v", dir, got, err)
	}
	_, err := b.output(config.ID, "pwd", driver.ExecOptions{Directory: "/no/such/directory"})
	b.refused("a command in a directory that does not exist", err, errdefs.InvalidArgument)
}

func checkExecEnvironment(b *bench) {
	config, _ := b.start(forever)
	const echo = "echo $DRIVERTEST-$EXTRA-$NOMAD_TASK_DIR"
	own, err := b.output(config.ID, echo, driver.ExecOptions{})
	if err != nil {
		b.t.Fatalf("ExecTask: %v", err)
	}
	want := "no-more" + strings.TrimPrefix(own, "yes-")
	if got, err := b.output(config.ID, echo, driver.ExecOptions{Env: map[string]string{"DRIVERTEST": "no", "EXTRA": "more"}}); err != nil || got != want {
		b.t.Errorf("a command with variables of its own prints %q, %v; want %q", got, err, want)
	}
	if again, err := b.output(config.ID, echo, driver.ExecOptions{}); err != nil || again != own {
		b.t.Errorf("the next command has them too: %q, %v; want %q", again, err, own)
	}
}
