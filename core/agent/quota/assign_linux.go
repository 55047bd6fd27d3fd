// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package quota

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxDepth is how deep directories are followed. It bounds the open descriptors.
const maxDepth = 128

// assign gives a directory and what is in it a project id. The directory itself comes last,
// so that one that has an id is known to be complete. Links, devices, sockets and FIFOs
// have no ids of their own and take nothing worth counting.
func assign(ctx context.Context, dir string, id uint32) error {
	fd, err := open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := assignIn(ctx, fd, id, st.Dev, 0); err != nil {
		return err
	}
	return mark(fd, id, inherit)
}

// assignIn does that for what is in an open directory.
func assignIn(ctx context.Context, fd int, id uint32, device uint64, depth int) error {
	names, err := namesIn(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := assignEntry(ctx, fd, name, id, device, depth)
		if err != nil && !errors.Is(err, unix.ENOENT) { // it was removed meanwhile
			return err
		}
	}
	return nil
}

// mark writes the id of an open file or directory.
func mark(fd int, id uint32, flags uint32) error {
	var a attributes
	if err := ioctl(fd, getAttributes, &a); err != nil {
		return err
	}
	if a.project == id && a.flags&flags == flags {
		return nil
	}
	a.project, a.flags = id, a.flags|flags
	return ioctl(fd, setAttributes, &a)
}

func assignEntry(ctx context.Context, at int, name string, id uint32, device uint64, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if st.Dev != device || kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return nil
	}
	// O_NONBLOCK: a task may have put a FIFO into the place of the file.
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if kind == unix.S_IFREG {
		return mark(fd, id, 0)
	}
	if err := mark(fd, id, inherit); err != nil || depth == maxDepth { // first, so that new entries inherit it
		return err
	}
	return assignIn(ctx, fd, id, device, depth+1)
}

// namesIn lists an open directory. Its descriptor stays open and is at the end afterwards.
func namesIn(fd int) ([]string, error) {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again), "a directory")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
