// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/cgroup"
)

// ownGroup is the cgroup (of version 2) of one command, below the cgroup of its task, whose
// limits apply in it. If the command has to be ended early, all of its processes are killed by
// this cgroup, even those that have moved to another session. If the command ends by itself, the
// processes that it leaves behind stay, and end with the task. A nil ownGroup means that the
// processes are found only by their session.
type ownGroup struct {
	dir string
	fd  int
}

const (
	ownGroupPrefix = "command."
	// ownGroupAge is the age from which a group without processes is certainly not waiting for
	// its command to start.
	ownGroupAge = time.Minute
)

// newOwnGroup makes a cgroup for a command below the cgroup of its task. It returns nil if the
// task has none, or if it cannot be made. The kernel can kill a group since Linux 5.14.
func newOwnGroup(task string) *ownGroup {
	if _, err := os.Stat(filepath.Join(task, "cgroup.kill")); task == "" || err != nil {
		return nil
	}
	sweepOwnGroups(task)
	dir, err := os.MkdirTemp(task, ownGroupPrefix)
	if err != nil {
		return nil
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Rmdir(dir) // it stays unused
		return nil
	}
	return &ownGroup{dir, fd}
}

// sweepOwnGroups removes the groups of commands whose last process has ended since.
func sweepOwnGroups(task string) {
	entries, _ := os.ReadDir(task) // what cannot be read has none
	for _, e := range entries {
		if ok, _ := filepath.Match(ownGroupPrefix+"*", e.Name()); !ok || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > ownGroupAge {
			_ = unix.Rmdir(filepath.Join(task, e.Name())) // EBUSY: it has processes
		}
	}
}

// have starts a command in the group.
func (g *ownGroup) have(cmd *exec.Cmd) {
	if g != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, g.fd
	}
}

// in replaces the unified group among the directories of a task's groups.
func (g *ownGroup) in(dirs []string, unified string) []string {
	if g == nil {
		return dirs
	}
	out := []string{g.dir}
	for _, dir := range dirs {
		if dir != unified {
			out = append(out, dir)
		}
	}
	return out
}

// kill kills all processes of the command.
func (g *ownGroup) kill() {
	if g != nil {
		_ = os.WriteFile(filepath.Join(g.dir, "cgroup.kill"), []byte("1"), 0) // an error means that the task has ended
	}
}

// close removes the group as soon as it has no process.
func (g *ownGroup) close() {
	if g == nil {
		return
	}
	_ = syscall.Close(g.fd) // it was only read
	// Killed processes end soon. What is left is removed by the next command, or with the task.
	for wait := time.Millisecond; cgroup.RemoveTree(g.dir) == unix.EBUSY && wait < 20*time.Millisecond; wait *= 2 {
		time.Sleep(wait)
	}
}
