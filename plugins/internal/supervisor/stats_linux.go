// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/plugins/internal/sandbox"
)

// Measure samples all tasks in one pass over the machine's processes. It runs in
// the caller's process and costs the supervisor nothing. A process is a task's if
// it is in its session or descends from one that is. Tasks that have ended are
// absent.
func Measure(tasks []Status) map[string]Usage {
	owner := map[int]int{} // pid of a task -> index
	out := make(map[string]Usage, len(tasks))
	groups := isolatedGroups(tasks)
	for i := range tasks {
		switch t := &tasks[i]; {
		case t.Exit != nil:
		case t.Group != "" && groups != nil:
			u := groups.Open(t.Group).Usage()
			out[t.ID] = Usage{User: u.User, System: u.System, RSS: u.RSS, PIDs: u.PIDs, Group: &u}
		default:
			owner[t.PID] = i
		}
	}
	if len(owner) == 0 {
		return out
	}
	stats := processes()
	page := uint64(os.Getpagesize())
	for _, st := range stats {
		i, ok := ownerOf(st, stats, owner)
		if !ok {
			continue
		}
		u := out[tasks[i].ID]
		u.User += time.Duration(st.utime) * time.Second / clockTicks
		u.System += time.Duration(st.stime) * time.Second / clockTicks
		u.RSS += st.rssPages * page
		u.PIDs = append(u.PIDs, st.pid)
		out[tasks[i].ID] = u
	}
	for i := range tasks {
		if u, ok := out[tasks[i].ID]; ok && u.Group == nil && cgroupCPU(tasks[i].Cgroup, &u) {
			out[tasks[i].ID] = u
		}
	}
	return out
}

// isolatedGroups are the machine's cgroups if some task is isolated.
func isolatedGroups(tasks []Status) *sandbox.Cgroups {
	for i := range tasks {
		if tasks[i].Group != "" {
			groups, err := sandbox.FindCgroups()
			if err != nil {
				return nil // measured as other tasks then
			}
			return groups
		}
	}
	return nil
}

// OOMKills counts the processes of each isolated task that the kernel killed
// because the task was out of memory. Tasks without any are absent.
func OOMKills(tasks []Status) map[string]uint64 {
	groups := isolatedGroups(tasks)
	if groups == nil {
		return nil
	}
	out := map[string]uint64{}
	for i := range tasks {
		if t := &tasks[i]; t.Group != "" && t.Exit == nil {
			if n := groups.Open(t.Group).OOMKills(); n > 0 {
				out[t.ID] = n
			}
		}
	}
	return out
}

func processes() map[int]procStat {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	stats := make(map[int]procStat, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil { // else it has just ended
			stats[pid] = st
		}
	}
	return stats
}

func ownerOf(st procStat, stats map[int]procStat, owner map[int]int) (int, bool) {
	for range 64 { // deeper than any tree, and an end should pids be reused meanwhile
		if i, ok := owner[st.session]; ok {
			return i, true
		}
		parent, ok := stats[st.ppid]
		if !ok {
			return 0, false
		}
		st = parent
	}
	return 0, false
}

// cgroupCPU replaces the sum over processes by the cgroup's counter, which also
// has those that came and went between two samples.
func cgroupCPU(dir string, u *Usage) bool {
	if dir == "" {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "user_usec":
			u.User = time.Duration(n) * time.Microsecond
		case name == "system_usec":
			u.System = time.Duration(n) * time.Microsecond
		}
	}
	return true
}
