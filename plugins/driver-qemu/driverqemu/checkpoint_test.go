// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (n *node) checkpoint(task *driver.TaskConfig) string {
	n.t.Helper()
	dir := n.t.TempDir()
	if err := n.d.CheckpointTask(n.t.Context(), task.ID, dir); err != nil {
		n.t.Fatal(err)
	}
	n.paused(task, true)
	return dir
}

func (n *node) paused(task *driver.TaskConfig, want bool) {
	n.t.Helper()
	s, err := n.d.InspectTask(n.t.Context(), task.ID)
	if err != nil || s.State != driver.TaskRunning || s.Paused != want {
		n.t.Errorf("%+v, %v; want Paused = %t", s, err, want)
	}
}

func (n *node) restore(task *driver.TaskConfig, dir string) {
	n.t.Helper()
	if _, _, err := n.d.RestoreTask(n.t.Context(), task, dir); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.destroy(task) })
}

// bootOf waits until the guest serves the id of its boot.
func (n *node) bootOf(port int) string {
	n.t.Helper()
	var boot string
	eventually(n.t, "the guest serves the id of its boot", func() bool {
		boot = fetch(port, "boot_id")
		return boot != ""
	})
	return boot
}

func TestAGuestMovesToAnotherNodeByItsCheckpoint(t *testing.T) {
	t.Parallel() // it waits for a virtual machine
	from, to := newNode(t, nil), newNode(t, nil)
	task, port := from.web(nil)
	from.run(task)
	from.serves(port)
	boot := from.bootOf(port)

	// A checkpoint is a pause: the machine may also go on where it is.
	from.checkpoint(task)
	if err := from.d.ResumeTask(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if got := from.bootOf(port); got != boot {
		t.Errorf("it has booted anew: %q, was %q", got, boot)
	}
	from.paused(task, false)

	dir := from.checkpoint(task)
	from.destroy(task)
	moved, port := to.web(nil) // on another port, in other directories, under another id
	body, err := os.ReadFile(filepath.Join(from.dir, "web", "local", "guest.img"))
	if err == nil {
		err = os.WriteFile(filepath.Join(to.dir, "web", "local", "guest.img"), body, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	to.restore(moved, copied)
	to.paused(moved, false)
	if got := to.bootOf(port); got != boot {
		t.Errorf("the guest has booted anew: %q, was %q", got, boot)
	}
	if strings.Contains(to.console(moved), "guest up") {
		t.Errorf("its console has a boot: %q", to.console(moved))
	}
}

func TestACheckpointThatIsGivenUpLeavesTheMachineAsItWas(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": "disk.img"})
	n.run(task)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.d.CheckpointTask(gone, task.ID, t.TempDir()); err == nil {
		t.Error("a call that was given up before it began gave no error")
	}
	n.paused(task, false)
	if err := n.d.CheckpointTask(t.Context(), task.ID, filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a directory that is not there gave no error")
	}
	n.paused(task, false)
	full := t.TempDir() // the state can be written, the manifest cannot
	if err := os.WriteFile(filepath.Join(full, "checkpoint.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.d.CheckpointTask(t.Context(), task.ID, full); !errors.Is(err, os.ErrExist) {
		t.Errorf("a directory with another checkpoint: %v", err)
	}
	n.paused(task, false)
	if err := n.d.PauseTask(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	dir := n.checkpoint(task) // of a machine that is paused already
	n.destroy(task)
	again := n.task(map[string]any{"image_path": "disk.img"})
	n.restore(again, dir)
	n.paused(again, false)
}

func TestACheckpointIsRestoredOnlyForTheMachineThatWroteIt(t *testing.T) {
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	task := n.task(map[string]any{"image_path": "disk.img"})
	n.run(task)
	dir := n.checkpoint(task)
	if err := n.d.StopTask(t.Context(), task.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := n.d.CheckpointTask(t.Context(), task.ID, t.TempDir()); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a machine that has ended: %v", err)
	}
	if err := n.d.CheckpointTask(t.Context(), "nobody", t.TempDir()); !errdefs.IsNotFound(err) {
		t.Errorf("a machine that is not there: %v", err)
	}
	n.destroy(task)

	refused := func(what string, task *driver.TaskConfig, dir string, class errdefs.Class, why string) {
		t.Helper()
		_, _, err := n.d.RestoreTask(t.Context(), task, dir)
		if errdefs.ClassOf(err) != class || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: class %s, %v; want %s and %q", what, errdefs.ClassOf(err), err, class, why)
		}
		if _, err := n.d.InspectTask(t.Context(), task.ID); !errdefs.IsNotFound(err) {
			t.Errorf("%s: something is left: %v", what, err)
		}
	}
	plain := func() *driver.TaskConfig { return n.task(map[string]any{"image_path": "disk.img"}) }
	refused("an empty directory", plain(), t.TempDir(), errdefs.InvalidArgument, "no checkpoint")
	bigger := plain()
	bigger.Resources.MemoryMB *= 2
	refused("more memory", bigger, dir, errdefs.InvalidArgument, "memory in MiB")
	refused("another machine", n.task(map[string]any{"image_path": "disk.img", "machine_type": "q35"}), dir, errdefs.InvalidArgument, "machine_type")
	refused("other devices", n.task(map[string]any{"image_path": "disk.img", "drive_interface": "virtio"}), dir, errdefs.InvalidArgument, "set of devices")

	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.CopyFS(cut, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(cut, "machine.state"), 1<<20); err != nil {
		t.Fatal(err)
	}
	refused("a state that was cut", plain(), cut, errdefs.FailedPrecondition, "QEMU ended at once")
	newer, err := json.Marshal(map[string]any{"version": 2})
	if err == nil {
		err = os.WriteFile(filepath.Join(cut, "checkpoint.json"), newer, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused("a newer manifest", plain(), cut, errdefs.InvalidArgument, "version 2")

	snapshot := n.task(map[string]any{"image_path": "disk.img", "args": []any{"-snapshot"}})
	n.run(snapshot)
	if err := n.d.CheckpointTask(t.Context(), snapshot.ID, t.TempDir()); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "-snapshot") {
		t.Errorf("a machine whose disks are thrown away: %v", err)
	}
}

func TestAMachineOfAnotherUserIsRestoredFromAPrivateCheckpoint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	n := newNode(t, nil)
	n.disk("disk.img", 1<<20)
	n.open()
	if err := os.Chown(filepath.Join(n.dir, "web", "disk.img"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	var dir string
	for _, start := range []func(*driver.TaskConfig){func(task *driver.TaskConfig) { n.run(task) }, func(task *driver.TaskConfig) { n.restore(task, dir) }} {
		task := n.task(map[string]any{"image_path": "disk.img"})
		task.User = "nobody"
		start(task)
		if uid := n.status(task, "Uid"); uid != "65534 65534 65534 65534" {
			t.Errorf("it runs as %s", uid)
		}
		dir = n.checkpoint(task)
		n.destroy(task)
	}
}
