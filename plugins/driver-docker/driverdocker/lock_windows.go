// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file, exclusively if alone is true and otherwise shared. It
// does not wait: it reports whether it got the lock. The lock is released when the
// process ends. It covers a byte far beyond the end of the file, since a locked byte
// cannot be read.
func tryLock(f *os.File, alone bool) (bool, error) {
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, at) // it may not be locked yet
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}
