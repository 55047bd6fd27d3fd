// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// ownLock reports whether lockDir locks directories, so that badger need not.
const ownLock = true

// lockDir locks a directory as badger does, until the file is closed. Unavailable:
// another process has locked it.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the store: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close() // the first error is returned
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errdefs.Unavailablef("%s is in use by another process, probably an agent; stop it or choose another directory", dir)
	}
	return nil, fmt.Errorf("lock %s: %w", dir, err)
}
