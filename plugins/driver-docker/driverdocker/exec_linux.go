// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// killInside kills a process if it is in the container. The pidfd guarantees that
// the killed process is the one that was checked.
func killInside(pid int, container string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // the process has ended or runs on another machine
	}
	defer unix.Close(fd)
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err == nil && bytes.Contains(groups, []byte(container)) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error means that the process has ended
	}
}
