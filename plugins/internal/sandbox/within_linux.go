// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Within calls f on a thread that is in the given cgroups and, if network is not
// empty, in that network namespace, so that a process which f forks is in them from
// its first instruction on. Because only whole processes can be moved in v2, f gets
// the v2 cgroup among dirs as an open descriptor, or -1 if there is none, and passes
// it to clone.
func Within(dirs []string, network string, f func(unified int) error) error {
	unified, legacy := -1, []string{}
	defer func() { closeFD(unified) }()
	for _, dir := range dirs {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		switch {
		case err == nil && st.Type == unix.CGROUP2_SUPER_MAGIC && unified < 0:
			unified, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		case err == nil && st.Type == unix.CGROUP2_SUPER_MAGIC:
			err = fmt.Errorf("a process is in one cgroup of version 2 only")
		case err == nil:
			legacy = append(legacy, dir)
		}
		if err != nil {
			return enterError(dir, err)
		}
	}
	enter := func() error {
		for _, dir := range legacy {
			if err := os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0); err != nil {
				return enterError(dir, err)
			}
		}
		if err := joinNetwork(network); err != nil {
			return err
		}
		return f(unified)
	}
	if len(legacy) == 0 && network == "" {
		return enter()
	}
	return onThread(enter)
}

func enterError(dir string, err error) error {
	return &CommandError{fmt.Errorf("put the task into the cgroup %s: %w; it must exist and be writable to the agent", dir, err)}
}
