// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of descendants whose own parents have ended, so
// that descendants finds them.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// descendants returns the processes that this one has started, those that they have started,
// and so on.
func descendants() []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc") // without /proc none is found, and the command itself is still signalled
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			parent := parentOf(pid)
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[os.Getpid()]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// parentOf returns 0 for a process that has ended meanwhile.
func parentOf(pid int) int {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// PID (NAME) STATE PARENT: the name may hold anything, so fields are counted after it.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1]) // the kernel writes a number
	return parent
}

// interruptAll interrupts a process and all that this one has started.
func interruptAll(p *os.Process) error {
	err := p.Signal(os.Interrupt)
	for _, pid := range descendants() {
		if pid != p.Pid {
			_ = unix.Kill(pid, unix.SIGINT) // one that has ended needs no signal
		}
	}
	return err
}

// endAll waits until all that this process has started has ended, and kills what still runs
// after a time.
func endAll(within time.Duration) {
	late := time.After(within)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	kill := false
	for left := descendants(); len(left) > 0; left = descendants() {
		for _, pid := range left {
			if kill {
				_ = unix.Kill(pid, unix.SIGKILL) // one that has ended needs no signal
			}
			for errors.Is(reap(pid), unix.EINTR) {
			}
		}
		select {
		case <-late:
			kill = true
		case <-again.C:
		}
	}
}

// reap removes a child that has ended from the table of processes.
func reap(pid int) error {
	_, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return err
}
