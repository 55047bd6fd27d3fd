// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"os"
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
