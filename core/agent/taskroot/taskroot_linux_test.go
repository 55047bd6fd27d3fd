// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package taskroot_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/agent/taskroot"
	"github.com/drover-project/drover/sdk/errdefs"
)

// bed is an alloc's directory with a task's folder, and a machine's directory to show.
type bed struct {
	t                    *testing.T
	alloc, task, machine string
	roots                *taskroot.Roots
}

func newBed(t *testing.T) *bed {
	t.Helper()
	dir := t.TempDir()
	b := &bed{t: t, alloc: filepath.Join(dir, "alloc dir"), machine: filepath.Join(dir, "machine")}
	b.task = filepath.Join(b.alloc, "web")
	for _, d := range []string{"alloc/data", "web/local", "web/secrets", "web/tmp"} {
		b.mkdir(filepath.Join(b.alloc, d))
	}
	b.write(filepath.Join(b.machine, "usr/bin/tool"), "tool")
	b.write(filepath.Join(b.machine, "etc/name"), "machine")
	b.link("usr/bin", filepath.Join(b.machine, "bin"))
	b.roots = b.show(nil)
	if why := b.roots.Unable(); why != "" {
		t.Skip(why)
	}
	t.Cleanup(func() {
		if err := b.roots.Remove(b.task); err != nil {
			t.Error(err)
		}
	})
	return b
}

// show returns roots that show the parts of the bed's machine, and more.
func (b *bed) show(more map[string]string) *taskroot.Roots {
	seen := map[string]string{}
	for _, name := range []string{"/usr", "/etc", "/bin", "/missing"} {
		seen[b.machine+name] = name
	}
	for from, to := range more {
		seen[from] = to
	}
	return taskroot.New(seen, b.alloc, "/nowhere")
}

func (b *bed) mkdir(dir string) {
	b.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) write(file, body string) {
	b.t.Helper()
	b.mkdir(filepath.Dir(file))
	if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) link(to, at string) {
	b.t.Helper()
	if err := os.Symlink(to, at); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) build() {
	b.t.Helper()
	if err := b.roots.Build(b.t.Context(), b.task); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) want(path, body string) {
	b.t.Helper()
	if got, err := os.ReadFile(filepath.Join(b.task, path)); err != nil || string(got) != body {
		b.t.Errorf("%s has %q, %v; want %q", path, got, err, body)
	}
}

func TestATaskSeesTheMachineReadOnlyAndTheFolderOfItsAlloc(t *testing.T) {
	b := newBed(t)
	b.build()
	b.want("usr/bin/tool", "tool")
	b.want("bin/tool", "tool")
	for _, file := range []string{"usr/bin/tool", "usr/new", "etc/name"} {
		if err := os.WriteFile(filepath.Join(b.task, file), nil, 0o644); !errors.Is(err, syscall.EROFS) {
			t.Errorf("writing %s: %v", file, err)
		}
	}
	b.write(filepath.Join(b.task, "alloc/data/note"), "hello")
	b.write(filepath.Join(b.task, "local/own"), "own")
	b.build() // the next run of the task
	b.want("alloc/data/note", "hello")
	if err := b.roots.Remove(b.task); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.task, "usr/bin")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end the task's folder still shows the machine: %v", err)
	}
	b.want("local/own", "own")
	b.want("../alloc/data/note", "hello")
	b.want("../../machine/usr/bin/tool", "tool")
}

func TestATasksOwnFilesAreSeenBesideThoseOfTheMachine(t *testing.T) {
	b := newBed(t)
	b.write(filepath.Join(b.task, "etc/app.conf"), "own")
	b.build()
	b.want("etc/app.conf", "own")
	b.want("etc/name", "machine")
	if err := os.WriteFile(filepath.Join(b.task, "etc/new"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("writing beside them: %v", err)
	}
}

func TestASingleFileIsShownAndWhatIsSeenAlreadyIsNotShownTwice(t *testing.T) {
	b := newBed(t)
	b.roots = b.show(map[string]string{b.machine + "/etc/name": "/opt/name", b.machine + "/usr/bin/tool": "/bin/tool"})
	b.build()
	b.want("opt/name", "machine")
	b.want("bin/tool", "tool")
}

// TestNoLinkLeadsAMountOutOfTheTasksFolder has a task put links where the agent mounts.
func TestNoLinkLeadsAMountOutOfTheTasksFolder(t *testing.T) {
	for name, path := range map[string]string{"the place": "etc", "the shared folder": "alloc", "a folder above": "opt"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			victim := filepath.Join(b.alloc, "..", "victim")
			b.write(filepath.Join(victim, "etc/keep"), "kept")
			b.link(victim, filepath.Join(b.task, path))
			b.roots = b.show(map[string]string{b.machine + "/usr/bin": "/opt/bin"})
			err := b.roots.Build(t.Context(), b.task)
			if !errdefs.IsInvalidArgument(err) {
				t.Errorf("built: %v", err)
			}
			body, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil || strings.Contains(string(body), victim) {
				t.Errorf("something is mounted below %s (%v)", victim, err)
			}
			if got, err := os.ReadFile(filepath.Join(victim, "etc/keep")); err != nil || string(got) != "kept" {
				t.Errorf("the victim has %q, %v", got, err)
			}
			if left, err := os.ReadDir(victim); err != nil || len(left) != 1 {
				t.Errorf("made in the victim: %v, %v", left, err)
			}
		})
	}
}

// TestNoLinkLeadsAnUnmountOutOfTheTasksFolder has a task exchange the way to a mount.
func TestNoLinkLeadsAnUnmountOutOfTheTasksFolder(t *testing.T) {
	b := newBed(t)
	b.roots = b.show(map[string]string{b.machine + "/usr": "/run/usr"})
	b.build()
	other := filepath.Join(b.alloc, "other", "usr")
	b.mkdir(other)
	if err := syscall.Mount("tmpfs", other, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(other, 0); err != nil {
			t.Error("what is mounted elsewhere is gone: ", err)
		}
	}()
	if err := os.Rename(filepath.Join(b.task, "run"), filepath.Join(b.task, "moved")); err != nil {
		t.Fatal(err)
	}
	b.link(filepath.Dir(other), filepath.Join(b.task, "run"))
	if err := b.roots.Remove(b.task); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(body), "/web/moved/usr ") {
		t.Errorf("the moved mount is left (%v)", err)
	}
}

func TestPathsThatCannotBeShownAreRefusedWithTheCure(t *testing.T) {
	b := newBed(t)
	data := filepath.Join(b.alloc, "..")
	for name, c := range map[string]struct{ from, to, says string }{
		"the agent's data":  {data, "/data", "agent's own directory"},
		"what has the data": {filepath.Dir(data), "/up", "agent's own directory"},
		"no absolute path":  {"usr", "/usr", "absolute"},
		"the task's own":    {"/usr", "/local/usr", "belongs to the task"},
		"everything":        {"/usr", "/", "belongs to the task"},
		"upwards":           {"/usr", "/../../secrets", "belongs to the task"},
	} {
		r := taskroot.New(map[string]string{c.from: c.to}, data)
		if got := r.Unable(); !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
		if err := r.Build(t.Context(), b.task); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("%s: built: %v", name, err)
		}
	}
}
