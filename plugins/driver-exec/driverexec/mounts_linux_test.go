// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// mountedTask is a task of raw_exec that runs a script with mounts.
func mountedTask(t *testing.T, script string, mounts ...driver.Mount) (driver.Driver, *driver.TaskConfig) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	d, task := rawTask(t, map[string]any{"command": "/bin/sh", "args": []any{"-c", script}})
	task.Mounts = mounts
	return d, task
}

// ends starts the task and returns its output.
func ends(t *testing.T, d driver.Driver, task *driver.TaskConfig) string {
	t.Helper()
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if _, err := d.WaitTask(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(task.Logs.StdoutPath + ".0")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// volume is a directory with a file.
func volume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("of the volume\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestARawTaskHasItsMountsAndNobodyElseDoes(t *testing.T) {
	own, books, machine := volume(t), volume(t), t.TempDir()
	d, task := mountedTask(t, `cat local/data/file; echo written > local/data/new; cat "$AT/file"; echo x > "$AT/no" 2>/dev/null || echo read-only; grep NoNewPrivs /proc/self/status; exec sleep 600`,
		driver.Mount{HostPath: own, TaskPath: "local/data"}, driver.Mount{HostPath: books, TaskPath: machine, ReadOnly: true, PropagationMode: "host-to-task"})
	task.Env["AT"] = machine
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	want := "of the volume\nof the volume\nread-only\nNoNewPrivs:\t1\n"
	eventually(t, "the task has used its mounts", func() bool {
		out, _ := os.ReadFile(task.Logs.StdoutPath + ".0")
		return string(out) == want
	})
	if body, err := os.ReadFile(filepath.Join(own, "new")); err != nil || string(body) != "written\n" {
		t.Errorf("the volume has %q, %v", body, err)
	}
	for _, place := range []string{filepath.Join(task.TaskDir, "local", "data"), machine} {
		if entries, err := os.ReadDir(place); err != nil || len(entries) != 0 {
			t.Errorf("%s of the machine has %v, %v", place, entries, err)
		}
	}
	var out bytes.Buffer
	result, err := d.ExecTask(t.Context(), task.ID, driver.ExecOptions{Command: []string{"/bin/cat", "local/data/new", machine + "/file"}}, driver.ExecStream{Stdout: &out, Stderr: &out})
	if err != nil || result.ExitCode != 0 || out.String() != "written\nof the volume\n" {
		t.Errorf("a command beside the task says %q, %+v, %v", out.String(), result, err)
	}
	out.Reset()
	_, err = d.ExecTask(t.Context(), task.ID, driver.ExecOptions{Command: []string{"/bin/cat", "local/data/new"}, TTY: true}, driver.ExecStream{Stdout: &out})
	if err != nil || !strings.Contains(out.String(), "written") {
		t.Errorf("a command with a terminal says %q, %v", out.String(), err)
	}
}

func TestWhatTheMachineMountsLaterIsMountedForARawTaskToo(t *testing.T) {
	top := t.TempDir()
	if err := unix.Mount("tmpfs", top, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no mounts: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(top, unix.MNT_DETACH) }) // it may be gone
	if err := unix.Mount("", top, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	d, task := mountedTask(t, `echo up; until test -e "$TOP/later/file"; do sleep 0.05; done; echo seen; until ! test -e "$TOP/later/file"; do sleep 0.05; done; echo gone; exec sleep 600`,
		driver.Mount{HostPath: volume(t), TaskPath: "local/data"})
	task.Env["TOP"] = top
	if _, _, err := d.StartTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	says := func(want string) {
		t.Helper()
		eventually(t, "the task says "+want, func() bool {
			out, _ := os.ReadFile(task.Logs.StdoutPath + ".0")
			return strings.HasSuffix(string(out), want+"\n")
		})
	}
	says("up")
	later := filepath.Join(top, "later")
	if err := os.Mkdir(later, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(volume(t), later, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	says("seen")
	if err := unix.Unmount(later, 0); err != nil {
		t.Errorf("the task holds what the machine has mounted: %v", err)
	}
	says("gone")
}

func TestADeviceOfTheMachineIsAtAnotherPathOfARawTask(t *testing.T) {
	d, task := mountedTask(t, `test -c local/dev/nothing && echo a device; echo x > local/dev/nothing && echo written`)
	task.Devices = []driver.Device{{HostPath: "/dev/null", TaskPath: "local/dev/nothing", Permissions: "rwm"}}
	if out := ends(t, d, task); out != "a device\nwritten\n" {
		t.Errorf("it says %q", out)
	}
}

func TestMountsThatARawTaskCannotHaveAreRefused(t *testing.T) {
	dir := volume(t)
	for what, c := range map[string]struct {
		mount driver.Mount
		want  string
	}{
		"a path that the machine does not have": {driver.Mount{HostPath: dir, TaskPath: "/there-is/no-such-path"}, "such as local/there-is/no-such-path"},
		"a path outside the task's directory":   {driver.Mount{HostPath: dir, TaskPath: "../../other"}, "outside the task's directory"},
		"a directory on a file":                 {driver.Mount{HostPath: dir, TaskPath: "/etc/passwd"}, "a directory can be mounted on a directory only"},
		"a mount that goes back to the machine": {driver.Mount{HostPath: dir, TaskPath: "local/data", PropagationMode: "bidirectional"}, "cannot be bidirectional"},
		"a mode that does not exist":            {driver.Mount{HostPath: dir, TaskPath: "local/data", PropagationMode: "public"}, `propagation mode "public" is none of`},
	} {
		d, task := mountedTask(t, "true", c.mount)
		if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	d, task := mountedTask(t, "true")
	task.Devices = []driver.Device{{HostPath: "/dev/null", TaskPath: "local/null", Permissions: "r"}}
	if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "only reads") {
		t.Errorf("a device that is read only: %v", err)
	}
	d, task = mountedTask(t, "true", driver.Mount{HostPath: dir, TaskPath: "local/link/data"})
	if err := os.Symlink(t.TempDir(), filepath.Join(task.TaskDir, "local", "link")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.StartTask(t.Context(), task); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a link that leads outside: %v", err)
	}
}
