// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func (f *Facts) probePlatform() {
	f.set("os.cgroups.version", cgroupVersion())
	if v := landlock(); v > 0 {
		f.set("kernel.landlock", "v"+strconv.Itoa(v))
	}
}

// CgroupParent is where the tasks' cgroups lie.
func CgroupParent() string { return "nomad.slice" }

func cgroupVersion() string {
	var st unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &st); err != nil {
		return ""
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return "2"
	}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		return "1"
	}
	return ""
}

// landlock asks the kernel for the version of its landlock interface.
func landlock() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

func signals() []string {
	return []string{
		"SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO", "SIGIOT", "SIGKILL",
		"SIGNULL", "SIGPIPE", "SIGPROF", "SIGQUIT", "SIGSEGV", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN",
		"SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
	}
}
