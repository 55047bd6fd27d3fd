// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package mounts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Detach unmounts what is mounted on a folder and everything that is mounted below it.
func Detach(dir string) error {
	if err := detachAt(unix.AT_FDCWD, dir); err != nil {
		return detachListed(dir, func(string) bool { return true })
	}
	return DetachBelow(dir, "")
}

// DetachBelow unmounts everything that is mounted below a folder, except what is mounted on the
// entry called except ("" for none). It is safe where somebody replaces parts of the folder by
// links meanwhile.
func DetachBelow(dir, except string) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer f.Close()
		err = detachIn(f, except)
	}
	if err != nil { // an old kernel, a file system that does not answer, or too many levels
		return detachListed(dir, func(rel string) bool { return rel != "." && rel != except })
	}
	return nil
}

// detachIn walks through a folder. It does not enter what is mounted there: with a mount goes
// everything that is mounted below it.
func detachIn(dir *os.File, except string) error {
	for {
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			if e.Name() == except {
				continue
			}
			if err := detachEntry(dir, e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func detachEntry(dir *os.File, e os.DirEntry) error {
	fd := int(dir.Fd())
	if err := detachAt(fd, e.Name()); err != nil || !e.IsDir() {
		return err
	}
	below, err := unix.Openat(fd, e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP: // it has been replaced meanwhile
		return nil
	default:
		return err
	}
	f := os.NewFile(uintptr(below), filepath.Join(dir.Name(), e.Name()))
	defer f.Close()
	return detachIn(f, "")
}

// errUnknown means that the kernel does not say what is a mount (before 5.8).
var errUnknown = errors.New("the kernel does not tell mounts from folders")

// detachAt unmounts everything that is mounted on one entry of a folder.
func detachAt(fd int, name string) error {
	for {
		var st unix.Statx_t
		err := unix.Statx(fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
		switch {
		case err == unix.ENOENT:
			return nil
		case err != nil:
			return err
		case st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
			return errUnknown
		case st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
			return nil
		}
		path := name
		if fd != unix.AT_FDCWD {
			path = filepath.Join(procFD(fd), name)
		}
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err == unix.EINVAL || err == unix.ENOENT {
			return nil // not mounted any more
		} else if err != nil {
			return err
		}
	}
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// detachListed unmounts what the kernel's list of all mounts has below a folder, or on it, the
// newest first. Wanted gets paths relative to the folder.
func detachListed(dir string, wanted func(rel string) bool) error {
	points, err := listed(dir)
	if err != nil || len(points) == 0 {
		return err
	}
	root, err := os.OpenRoot(dir) // which keeps links from leading out of it
	if err != nil {
		return fmt.Errorf("open a folder with mounts: %w", err)
	}
	defer root.Close()
	var failed error
	for i := len(points) - 1; i >= 0; i-- {
		if !wanted(points[i]) {
			continue
		}
		if err := detachOne(root, dir, points[i]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", filepath.Join(dir, points[i]), err))
		}
	}
	return failed
}

func detachOne(root *os.Root, dir, rel string) error {
	path := dir
	if rel != "." {
		f, err := root.OpenFile(rel, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		path = procFD(int(f.Fd()))
	}
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT { // not mounted any more
		return err
	}
	return nil
}

// listed returns the mount points on a folder (".") and below it, relative to it, in the order
// of mounting.
func listed(dir string) (out []string, err error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // the kernel names mount points without links
	}
	err = Each(func(p Point) {
		if rel, ok := strings.CutPrefix(p.Path, dir+"/"); ok {
			out = append(out, rel)
		} else if p.Path == dir {
			out = append(out, ".")
		}
	})
	return out, err
}
