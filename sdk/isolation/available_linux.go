// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Unavailable says why this machine cannot isolate tasks. It returns "" if it can.
func Unavailable() string {
	if loader() == nil {
		return "isolation is not available on " + runtime.GOARCH
	}
	if os.Geteuid() != 0 {
		return "the agent must run as root"
	}
	if own, err := effective(); err != nil || own&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return "the agent needs CAP_SYS_ADMIN"
	}
	// The descriptor is invalid on purpose: a kernel that has the call reports that
	// instead of ENOSYS.
	if err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}); err == unix.ENOSYS {
		return "Linux 5.12 or later is needed"
	}
	for _, ns := range []string{"mnt", "pid", "ipc"} {
		if unix.Access("/proc/self/ns/"+ns, unix.F_OK) != nil {
			return "the kernel has no namespaces of kind " + strconv.Quote(ns)
		}
	}
	return ""
}
