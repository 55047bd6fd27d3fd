// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/cgroup"
)

// cgroupRoot returns the mount point of the v2 hierarchy. A hybrid one without
// controllers is sufficient to keep a task's processes together. It returns "" if
// there is none or we cannot write to it; tasks are then tracked only by their
// session.
func cgroupRoot() string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	return ""
}

// taskCgroup creates the cgroup of a task. The cgroup is always new, since the
// kernel kills processes that are started in a cgroup that was killed before. It
// returns "" and -1 if there are no cgroups.
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
		_ = os.Remove(dir) // it stays unused
		return "", -1
	}
	return dir, fd
}

// hierarchies are the machine's cgroups. They do not change while it runs.
var hierarchies = sync.OnceValues(cgroup.FindCgroups)

// Freezer returns the directory of the cgroup whose files pause a task, or "" if the task
// has none.
func Freezer(s Status) (string, error) {
	if s.Group == "" {
		return s.Cgroup, nil
	}
	all, err := hierarchies()
	if err != nil {
		return "", err
	}
	return all.Open(s.Group).Freezer(), nil
}

// killCgroup kills every process in a task's cgroup, whatever session it moved to.
func killCgroup(dir string) {
	if dir != "" {
		// Before Linux 5.14 this file does not exist, and only the session is killed.
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	}
}

// oomKilled reports whether the OOM killer has killed a process of the cgroup.
func oomKilled(dir string) bool {
	if dir == "" {
		return false
	}
	raw, err := os.ReadFile(filepath.Join(dir, "memory.events"))
	if err != nil {
		return false // there is no memory controller
	}
	for line := range strings.Lines(string(raw)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}
