// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/procfs"
)

// sealDescriptors keeps plugins from inheriting descriptors that the agent itself
// inherited; the agent's own are closed in children anyway.
func sealDescriptors() {
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // from Linux 5.11; older kernels keep the descriptors open, as before
}

// startOf returns the start time of a process in a form that identifies it; "" if it
// does not exist.
func startOf(pid int) string {
	p, err := procfs.Read(pid)
	if err != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%d", bytes.TrimSpace(boot), p.Start)
}
