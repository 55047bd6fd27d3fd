// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"github.com/shirou/gopsutil/v4/disk"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Guard watches the file system of a directory. Badger writes through memory maps
// of sparse files: when a disk is full, such a write is no error but a fault that
// ends the process. So whoever writes to badger asks a Guard first and refuses
// while less than a reserve is free.
// It is safe for use by many goroutines.
type Guard struct {
	dir     string
	reserve uint64 // bytes
}

// New returns a Guard that keeps reserve bytes free on dir's file system.
func New(dir string, reserve uint64) *Guard { return &Guard{dir: dir, reserve: reserve} }

// Check returns an error of class ResourceExhausted while less than the reserve
// is free. It asks the file system each time, which costs about a microsecond:
// a fast disk fills within any interval that an answer could be kept for. A
// file system that does not say counts as having room.
func (g *Guard) Check() error {
	if g == nil {
		return nil
	}
	usage, err := disk.Usage(g.dir)
	if err != nil || usage.Free >= g.reserve {
		return nil
	}
	return errdefs.ResourceExhaustedf("the disk of %s is full: %d MiB are free and nothing is written below %d MiB; free some space, writes then go on by themselves",
		g.dir, usage.Free>>20, g.reserve>>20)
}
