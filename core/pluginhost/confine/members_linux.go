// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package confine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tasksSuffix is the suffix of the cgroup, beside a driver's own, into which the processes
// of its tasks are moved. It has no limits.
const tasksSuffix = ".tasks"

// members returns the processes in a cgroup. On version 1 this process is listed while
// a thread of it starts a plugin there (see Birth); it is left out, because it must
// neither be ended nor moved.
func members(dir string) []int {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var out []int
	for field := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil && pid != os.Getpid() {
			out = append(out, pid)
		}
	}
	return out
}

// EndOthers kills the processes in a plugin's cgroup that belong to none of the
// sessions, such as those that left the session of an ended plugin.
func (g *Groups) EndOthers(name string, sessions map[int]bool) (killed int) {
	for range endRounds { // one may have forked meanwhile
		left := 0
		for _, dir := range g.dirs(name) {
			for _, pid := range members(dir) {
				if sid, err := unix.Getsid(pid); err != nil || sessions[sid] || isZombie(pid) {
					continue
				}
				if unix.Kill(pid, unix.SIGKILL) == nil {
					left++
				}
			}
		}
		if left == 0 {
			return killed
		}
		killed = max(killed, left)
		time.Sleep(time.Millisecond)
	}
	return killed
}

// endRounds ends the search where processes fork faster than they are killed; the limit
// of the cgroup holds them.
const endRounds = 500

func isZombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

// FreeTasks moves the processes in a driver's cgroup of which move is true out of its limits:
// they are tasks, or supervise tasks.
//
// A process may leave the cgroup by itself, as the executor of a task does for the cgroup of
// the task. It must not be brought back from there, so move is false for one that may be about
// to, and each is looked for again right before it is moved.
func (g *Groups) FreeTasks(name string, move func(pid int) bool) {
	for _, dir := range g.dirs(name) {
		for _, pid := range members(dir) {
			if !move(pid) || !isIn(pid, dir) {
				continue
			}
			tasks := dir + tasksSuffix
			if err := os.MkdirAll(tasks, 0o755); err != nil {
				return
			}
			// An error means that it has ended.
			_ = os.WriteFile(filepath.Join(tasks, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		}
	}
}

// isIn reports whether a process is in a cgroup now. On version 1 it may also be in the cgroup
// of this name of another controller.
func isIn(pid int, dir string) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		// hierarchy:controllers:path, where the path begins at the mount of the hierarchy.
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(f) == 3 && f[2] != "/" && strings.HasSuffix(dir, f[2]) {
			return true
		}
	}
	return false
}

// Descendants returns the processes below one, without itself.
func Descendants(pid int) []int {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		return nil
	}
	var out []int
	for _, file := range threads {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(append(out, child), Descendants(child)...)
			}
		}
	}
	return out
}
