// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// canStage reports whether this process may mount.
func canStage() bool { return os.Geteuid() == 0 }

// bind mounts the file or directory rel of dir in the container's directory.
func (s *stage) bind(dir, rel string, create bool) (string, error) {
	fd, isDir, err := openBeneath(dir, rel, create)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := s.open(); err != nil {
		return "", err
	}
	s.n++
	place := filepath.Join(s.dir(), strconv.Itoa(s.n))
	if isDir {
		err = os.Mkdir(place, 0o700)
	} else {
		err = os.WriteFile(place, nil, 0o600)
	}
	if err == nil {
		err = attach(fd, place)
	}
	if err != nil {
		return "", errdefs.FailedPreconditionf("mount %s for the container: %w", joinPath(dir, rel), err)
	}
	return place, nil
}

// attach bind-mounts an open file or directory at place. Mounts made later in the
// source propagate to place, but not the other way: otherwise, on a machine with
// shared mounts, unmounting ours would also unmount the agent's mount of the secrets
// directory.
func attach(fd int, place string) error {
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err == nil {
		defer unix.Close(tree)
		err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_SLAVE})
	}
	if err == nil {
		return unix.MoveMount(tree, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// Before Linux 5.12 the mount is made first and then changed to a slave, so it is
	// shared for a moment.
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), place, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", place, "", unix.MS_SLAVE|unix.MS_REC, "")
}

// beneath checks that rel in dir can be mounted. If create is true it creates
// missing directories.
func beneath(dir, rel string, create bool) error {
	fd, _, err := openBeneath(dir, rel, create)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// openBeneath opens rel component by component and rejects links, so that the result
// is inside dir whatever a task changes meanwhile.
func openBeneath(dir, rel string, create bool) (fd int, isDir bool, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("open %s: %w", dir, err)
	}
	isDir = true
	for part := range strings.SplitSeq(filepath.Clean(rel), "/") {
		if part == "." {
			continue
		}
		next, err := unix.Openat(at, part, flags, 0)
		if create && errors.Is(err, unix.ENOENT) {
			next, err = makeFolder(at, part, flags)
		}
		_ = unix.Close(at) // an O_PATH descriptor
		if errors.Is(err, unix.ENOENT) {
			return -1, false, errors.New(joinPath(dir, rel) + " does not exist")
		}
		if err != nil {
			return -1, false, fmt.Errorf("open %s: %w", joinPath(dir, rel), err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(next, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
			_ = unix.Close(next) // an O_PATH descriptor
			return -1, false, errors.Join(err, errors.New(part+" of "+joinPath(dir, rel)+" is a link; mount its target instead"))
		}
		at, isDir = next, st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	return at, isDir, nil
}

// makeFolder creates and opens a missing directory.
func makeFolder(at int, name string, flags int) (int, error) {
	if err := unix.Mkdirat(at, name, 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return unix.Openat(at, name, flags, 0)
}

// mountStage mounts a small tmpfs for the mount points of one container.
func mountStage(dir string) error {
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=64k")
	if err != nil {
		return errdefs.FailedPreconditionf("mount a file system for the mounts of a container on %s: %w", dir, err)
	}
	return nil
}

// clearStage removes all mounts of a container's directory, and the directory
// itself. It never deletes recursively, because a remaining mount would expose the
// task's files.
func clearStage(dir string) error {
	for {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing is mounted there any more
		}
		if err != nil {
			return errdefs.FailedPreconditionf("remove the mounts of a container in %s: %w", dir, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return errdefs.FailedPreconditionf("remove the mounts of a container: %w", err)
	}
	for _, e := range entries {
		_ = os.Remove(filepath.Join(dir, e.Name())) // an empty directory that the daemon created, see stage.unseen
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errdefs.FailedPreconditionf("remove the mounts of a container: %w", err)
	}
	return nil
}

// fileIn reports whether a file exists as seen from a process, including links.
func fileIn(pid int, path string) bool {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // the process has ended, or the daemon runs on another machine
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // an O_PATH descriptor
	return true
}
