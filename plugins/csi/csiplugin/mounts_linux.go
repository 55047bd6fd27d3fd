// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mounted reports whether something is mounted at a path.
func mounted(path string) (bool, error) {
	there, err := mountinfo.Mounted(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether something is mounted at %s: %w", path, err)
	}
	return there, nil
}

// unmount removes what is mounted at a path. What somebody still uses stays.
func unmount(path string) error { return unix.Unmount(path, unix.UMOUNT_NOFOLLOW) }
