// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/procfs"
)

// end kills the processes in a group and in the groups below it, and removes them.
func (t *Tree) end(ctx context.Context, name string) error {
	dirs := slices.DeleteFunc(t.layout.dirs(name), func(dir string) bool { return !isDir(dir) })
	for len(dirs) > 0 {
		if pids := pidsIn(dirs); len(pids) > 0 {
			t.kill(ctx, name, dirs)
		} else if dirs = t.remaining(dirs); len(dirs) == 0 {
			return nil
		}
		if err := sleep.For(ctx, poll); err != nil {
			return errdefs.DeadlineExceededf("the cgroup of %s cannot be removed, since the processes %v in it do not end: %w", name, pidsIn(dirs), err)
		}
	}
	return nil
}

// kill kills the processes of a group once. They are stopped first, so that none forks
// another one meanwhile.
func (t *Tree) kill(ctx context.Context, name string, dirs []string) {
	for _, dir := range dirs { // version 2, since Linux 5.14
		if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
			return
		}
	}
	t.layout.freeze(name, true)
	defer t.layout.freeze(name, false) // until then, signals have no effect on version 1
	var found []*os.Process
	for _, pid := range pidsIn(dirs) {
		if passing(pid, name) {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			found = append(found, p)
		}
	}
	still := pidsIn(dirs) // another process may have got the number before it was looked up
	for _, p := range found {
		if _, in := slices.BinarySearch(still, p.Pid); in {
			_ = p.Kill() // an error means that it has ended
		}
		_ = p.Release()
	}
}

// passing reports whether a process is in the group only with a thread that starts the
// task, on version 1.
func passing(pid int, name string) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	p, serr := procfs.Read(pid)
	if err != nil || serr != nil {
		return true // it has ended
	}
	// The first thread may have ended before others: then it is a zombie with threads that run.
	return !p.Zombie && !strings.Contains(string(raw), "/"+name)
}

// pidsIn returns the processes of groups and of those below them, except this one, in order.
func pidsIn(dirs []string) []int {
	var out []int
	for _, top := range dirs {
		_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return nil // a removed group has no processes
			}
			raw, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for line := range strings.Lines(string(raw)) {
				pid, err := strconv.Atoi(strings.TrimSpace(line))
				if err == nil && pid > 1 && pid != os.Getpid() {
					out = append(out, pid)
				}
			}
			return nil
		})
	}
	slices.Sort(out) // on version 1 a process is in several groups
	return slices.Compact(out)
}

// remaining removes groups without processes, and returns those that stay.
func (t *Tree) remaining(dirs []string) []string {
	var out []string
	for _, top := range dirs {
		var all []string
		_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(all) { // those below first
			if err := t.rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) && dir == top {
				out = append(out, top)
			}
		}
	}
	return out
}

// write writes a value to a file of a group.
func write(dir, file, value string) error {
	path := filepath.Join(dir, file)
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("write %q to %s: %w", value, path, err)
	}
	return nil
}

// read returns the value of a file of a group, "" if there is none.
func read(dir, file string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(raw)), err
}
