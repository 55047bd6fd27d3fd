// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/procfs"
)

// adoptOrphans makes this process the parent of descendants whose own parents have ended, so
// that descendants finds them.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// descendants returns the processes that this one has started, those that they have started,
// and so on.
func descendants() []int {
	children := map[int][]int{}
	for _, pid := range procfs.PIDs() { // without /proc none is found, and the command itself is still signalled
		if p, err := procfs.Read(pid); err == nil {
			children[p.Parent] = append(children[p.Parent], pid)
		}
	}
	found := children[os.Getpid()]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
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
