// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package driverdocker

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file, exclusively if alone is true and otherwise shared. It
// does not wait: it reports whether it got the lock. The lock is released when the
// process ends.
func tryLock(f *os.File, alone bool) (bool, error) {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}
