// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// keepNamespace mounts the network namespace of the container's process at path, in place
// of an earlier one. So the path is the same for all processes that have kept the
// namespace, stays valid when the process ends, and never leads to another process.
func keepNamespace(container string, pid int, path string) error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		// The process belongs to the container both before (when it was inspected) and
		// after the open, so the opened namespace is the container's.
		err = processOf(container, pid)
	}
	if err != nil {
		return errdefs.FailedPreconditionf("find process %d of container %s: %w; the Docker daemon must run on the same machine as the agent", pid, short(container), err)
	}
	if same(fd, path) {
		return nil
	}
	if err := dropNamespace(path); err != nil {
		return err
	}
	err = os.WriteFile(path, nil, 0o600)
	if err == nil {
		err = unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), path, "", unix.MS_BIND, "")
	}
	if err != nil {
		return errdefs.FailedPreconditionf("mount the namespace at %s, which needs an agent that runs as root: %w", path, err)
	}
	return nil
}

func processOf(container string, pid int) error {
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && !bytes.Contains(body, []byte(container)) {
		err = errors.New("the process is not in the container's cgroup")
	}
	return err
}

// same reports whether the open namespace is mounted at path.
func same(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Stat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// dropNamespace unmounts what keepNamespace has mounted. Processes in the namespace keep it.
func dropNamespace(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
			return nil // nothing is mounted there any more, or this process could not mount
		}
		if err != nil {
			return errdefs.FailedPreconditionf("unmount the namespace %s: %w", path, err)
		}
	}
}
