// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// ownFile rejects a file that is mounted below the alloc's directory: it belongs to the
// machine, which shows it to a task as a part of the task's root file system. The file system in
// memory at secrets, the path of a secrets folder, is the alloc's own; "" is for other files.
func ownFile(dir, secrets string, f *os.File, name string) error {
	above, err := mountOf(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	own, err := mountOf(int(f.Fd()), "")
	if err != nil {
		return err
	}
	if own != above && !ofSecrets(f, own, secrets) {
		return errdefs.PermissionDeniedf("%s is mounted there and belongs to the machine; what the tasks of the alloc share is in alloc/", name)
	}
	return nil
}

// ofSecrets reports whether a file is in the file system in memory of a secrets folder.
func ofSecrets(f *os.File, own uint64, secrets string) bool {
	if secrets == "" {
		return false
	}
	at, err := mountOf(unix.AT_FDCWD, secrets)
	var st unix.Statfs_t
	return err == nil && at == own && unix.Fstatfs(int(f.Fd()), &st) == nil && st.Type == unix.TMPFS_MAGIC
}

// mountOf returns the kernel's number of the mount that has a file; 0 on kernels that do not
// say it, where nothing is mounted for tasks either.
func mountOf(at int, path string) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(at, path, unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, fmt.Errorf("look at the mount of a file of the alloc: %w", err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, nil
	}
	return st.Mnt_id, nil
}
