// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix && !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// hasStopped reports whether a process has stopped.
func hasStopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false, fmt.Errorf("read the state of process %d: %w", pid, err)
	}
	return strings.HasPrefix(string(state), "T"), nil
}
