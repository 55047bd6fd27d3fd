// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupRoot returns the mount of the v2 hierarchy, which may be a hybrid one
// without controllers: enough to hold a task's processes together. Empty if there
// is none or we may not write to it; tasks then are held by their session only.
func cgroupRoot() string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	return ""
}

// taskCgroup makes the cgroup of a task, always a new one: the kernel kills what
// is started into a cgroup that was killed before. Without one it returns "" and -1.
func taskCgroup(root, key string) (dir string, fd int) {
	if root == "" || os.MkdirAll(filepath.Join(root, "drover"), 0o755) != nil {
		return "", -1
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "drover"), key+".")
	if err != nil {
		return "", -1
	}
	fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = os.Remove(dir) // made for nothing
		return "", -1
	}
	return dir, fd
}

// killCgroup kills every process in a task's cgroup, whatever session it moved to.
func killCgroup(dir string) {
	if dir != "" {
		// Absent before Linux 5.14; the session's kill is then all there is.
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	}
}

// oomKilled reports whether the kernel killed a process of the cgroup for memory.
func oomKilled(dir string) bool {
	if dir == "" {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(dir, "memory.events"))
	if err != nil {
		return false // no memory controller here
	}
	for line := range strings.Lines(string(raw)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}
