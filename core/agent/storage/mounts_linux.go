// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-project/drover/core/agent/mounts"
)

// umountNoFollow is a flag of umount2(2): a link at the path is not followed.
const umountNoFollow = 0x8

// mounted reports whether something is mounted at a path.
func mounted(path string) (there bool, err error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // as the kernel names it
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the path of a volume: %w", err)
	}
	path = filepath.Join(dir, filepath.Base(path))
	err = mounts.Each(func(m mounts.Point) { there = there || m.Path == path })
	return there, err
}

// unmountAll unmounts everything at a path that nobody uses.
func unmountAll(path string) error {
	for {
		err := syscall.Unmount(path, umountNoFollow)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // nothing is mounted there
			return nil
		case err != nil:
			return fmt.Errorf("unmount: %w", err)
		}
	}
}

// share makes a directory one whose mounts other mount namespaces see, if it is not one
// already. On most machines all directories are.
func share(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("find the directory: %w", err)
	}
	var at mounts.Point
	err = mounts.Each(func(m mounts.Point) {
		if inside := m.Path == "/" || real == m.Path || strings.HasPrefix(real, m.Path+"/"); inside && len(m.Path) >= len(at.Path) {
			at = m
		}
	})
	if err != nil || at.Shared {
		return err
	}
	if at.Path != real {
		if err := syscall.Mount(real, real, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s on itself, since %s is not shared: %w", real, at.Path, err)
		}
	}
	if err := syscall.Mount("", real, "", syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts below %s: %w", real, err)
	}
	return nil
}
