// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Share lets the group's processes run on these cores only, also those that run already. A
// group that has no cpuset stays where it is, and so does every group if there are no cores.
func (g *Group) Share(cores []int) error {
	dir := g.dirs["cpuset"]
	if dir == "" || !HasCores(dir) || len(cores) == 0 {
		return nil
	}
	return writeCores(dir, cores)
}

// HasCores reports whether the group of a directory can bind its processes to cores.
func HasCores(dir string) bool {
	return dir != "" && unix.Access(filepath.Join(dir, "cpuset.cpus"), unix.F_OK) == nil
}

func writeCores(dir string, cores []int) error {
	if err := os.WriteFile(filepath.Join(dir, "cpuset.cpus"), []byte(coreList(cores)), 0); err != nil {
		return fmt.Errorf("use the cores %v only: %w; they must exist on this machine", cores, err)
	}
	return nil
}

// maxPasses is how often Move looks for threads that have begun meanwhile.
const maxPasses = 10

// Move lets the processes in a v2 group and in those below it run on these cores only. If the
// group cannot bind them, each thread is bound, and with it what it starts later.
func Move(dir string, cores []int) error {
	if HasCores(dir) {
		return writeCores(dir, cores)
	}
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	moved := map[int]bool{}
	for range maxPasses {
		more := false
		for _, tid := range threadsIn(dir) {
			if moved[tid] {
				continue
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
				return fmt.Errorf("use the cores %v only: %w; they must exist and be free for the agent to use", cores, err)
			}
			moved[tid], more = true, true
		}
		if !more {
			break
		}
	}
	return nil
}

// Beside calls a function whose thread, and with it what the function starts, runs on the cores
// of a process. If these cannot be found out, it runs on all.
func Beside(pid int, do func() error) error {
	var before, set unix.CPUSet
	runtime.LockOSThread()
	if unix.SchedGetaffinity(pid, &set) != nil || unix.SchedGetaffinity(0, &before) != nil || unix.SchedSetaffinity(0, &set) != nil {
		runtime.UnlockOSThread()
		return do()
	}
	defer func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread() // otherwise the thread keeps its affinity and ends with this goroutine
		}
	}()
	return do()
}

// threadsIn returns the threads in the group of a directory and in those below it.
func threadsIn(dir string) (tids []int) {
	raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.threads")) // a group that is gone has none
	for line := range strings.Lines(string(raw)) {
		if tid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && tid > 0 {
			tids = append(tids, tid)
		}
	}
	for _, below := range groupsBelow(dir) {
		tids = append(tids, threadsIn(below)...)
	}
	return tids
}
