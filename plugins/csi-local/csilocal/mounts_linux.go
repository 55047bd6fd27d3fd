// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// clear unmounts everything at a path.
func clear(path string) error {
	for {
		err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, fs.ErrNotExist): // nothing is mounted there
			return nil
		case err != nil:
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// bind makes what is at a path appear at another one too.
func bind(from, to string, readOnly bool) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", from, to, err)
	}
	if !readOnly {
		return nil
	}
	var st unix.Statfs_t
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY)
	if unix.Statfs(to, &st) == nil { // what it has must be kept
		flags |= uintptr(st.Flags) & (unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSUID | unix.MS_NOATIME | unix.MS_NODIRATIME)
	}
	if err := unix.Mount("", to, "", flags, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", to, err), clear(to))
	}
	return nil
}

// ioctls that freeze a file system and let it go on.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// freeze lets the file system of a volume stand still if it is mounted.
func (d *Driver) freeze(id string) (thaw func(), err error) {
	path, err := d.mountedAt(id)
	if err != nil || path == "" {
		return func() {}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the volume: %w", err)
	}
	if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("let the volume stand still: %w", err)
	}
	return func() {
		_ = unix.IoctlSetInt(int(f.Fd()), fiThaw, 0) // it was frozen
		_ = f.Close()
	}, nil
}

// thawAll lets the volumes go on that a killed driver has frozen.
func (d *Driver) thawAll() {
	for id, m := range d.volumes {
		if m.FSType == "" {
			continue
		}
		path, err := d.mountedAt(id)
		if err != nil || path == "" {
			continue
		}
		if f, err := os.Open(path); err == nil {
			_ = unix.IoctlSetInt(int(f.Fd()), fiThaw, 0) // an error means that it was not frozen
			_ = f.Close()
		}
	}
}

// mountedAt returns where a volume with a file system is staged; "" if it is not.
func (d *Driver) mountedAt(id string) (string, error) {
	n, err := d.onNode(id)
	if err != nil || n.Staging == "" {
		return "", err
	}
	there, err := mountinfo.Mounted(n.Staging)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !there {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look where the volume is: %w", err)
	}
	return n.Staging, nil
}
