// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// killInside kills a process if it is in the container, and its children if it leads
// their group, as the commands that the daemon starts do. The pidfd guarantees that the
// killed process is the one that was checked.
func killInside(pid int, container string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // the process has ended or runs on another machine
	}
	defer unix.Close(fd)
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err == nil && bytes.Contains(groups, []byte(container)) {
		// While it lives, its pid names no other group.
		if group, err := unix.Getpgid(pid); err == nil && group == pid && unix.PidfdSendSignal(fd, 0, nil, 0) == nil {
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error means that the process has ended
	}
}

// markedPasses bounds how often killMarked looks: what is killed may have forked meanwhile.
const markedPasses = 20

// killMarked kills the processes of a container that have a variable in the environment with
// which they were started.
func killMarked(mark, container string) {
	for range markedPasses {
		found := false
		names, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
		for _, name := range names {
			if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && marked(name, mark, container) {
				found = killIf(pid, func() bool { return marked(name, mark, container) }) || found
			}
		}
		if !found {
			return
		}
	}
}

// marked reports whether a process, given as its directory in /proc, is in a container and has
// a variable.
func marked(proc, mark, container string) bool {
	groups, err := os.ReadFile(filepath.Join(proc, "cgroup"))
	if err != nil || !bytes.Contains(groups, []byte(container)) {
		return false
	}
	env, err := os.ReadFile(filepath.Join(proc, "environ")) // of a process that ends it is empty
	return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00"))
}

// killIf kills a process that is still the one which ok is about.
func killIf(pid int, ok func() bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return ok() && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}
