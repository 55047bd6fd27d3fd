// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/osthread"
)

// Within calls f on a thread that is in the given cgroups and, if network is not
// empty, in that network namespace, so that a process which f forks is in them from
// its first instruction on. Because only whole processes can be moved in v2, f gets
// the v2 cgroup among dirs as an open descriptor, or -1 if there is none, and passes
// it to clone.
func Within(dirs []string, network string, f func(unified int) error) error {
	groups, err := openGroups(dirs)
	if err != nil {
		return err
	}
	defer groups.close()
	enter := func() error {
		if err := groups.enter(); err != nil {
			return err
		}
		if err := joinNetwork(network); err != nil {
			return err
		}
		return f(groups.unified)
	}
	if len(groups.legacy) == 0 && network == "" {
		return enter()
	}
	return osthread.Do(enter)
}

// WithinMounts calls f on a thread in a mount namespace, which is open as mounts, and, if
// network is not empty, in that network namespace.
func WithinMounts(mounts int, network string, f func() error) error {
	return osthread.Do(func() error {
		if err := joinNetwork(network); err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("leave the plugin's root directory: %w", err)
		}
		if err := unix.Setns(mounts, unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("join the task's mount namespace: %w", err)
		}
		return f()
	})
}

// groups are the cgroups of a process that will be forked.
type groups struct {
	dirs    []string
	unified int      // the cgroup of version 2, open for clone; -1 if there is none
	legacy  []string // directories of version 1, which a thread can enter
}

// openGroups sorts directories of cgroups by their version.
func openGroups(dirs []string) (*groups, error) {
	g := &groups{dirs: dirs, unified: -1}
	for _, dir := range dirs {
		unified, err := isUnified(dir)
		switch {
		case err == nil && unified && g.unified < 0:
			g.unified, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		case err == nil && unified:
			err = errors.New("a process is in one cgroup of version 2 only")
		case err == nil:
			g.legacy = append(g.legacy, dir)
		}
		if err != nil {
			g.close()
			return nil, enterError(dir, err)
		}
	}
	return g, nil
}

// isUnified reports whether the directory of a cgroup is of version 2.
func isUnified(dir string) (bool, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return st.Type == unix.CGROUP2_SUPER_MAGIC, err
}

// enter moves the calling thread to the cgroups of version 1, so that processes it forks
// start there. In version 2 only whole processes can be moved.
func (g *groups) enter() error {
	for _, dir := range g.legacy {
		if err := os.WriteFile(filepath.Join(dir, "tasks"), []byte("0"), 0); err != nil {
			return enterError(dir, err)
		}
	}
	return nil
}

func (g *groups) close() { closeFD(g.unified) }

func enterError(dir string, err error) error {
	return &CommandError{fmt.Errorf("put the task into the cgroup %s: %w; it must exist and be writable to the agent", dir, err)}
}
