// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"fmt"
	"path/filepath"

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

// openMargin is what the opening of a store writes beside its memtables.
const openMargin = 16 << 20

// CheckOpen returns an error of class ResourceExhausted if there is no room even to
// open the store in a directory: badger first writes what its memtables hold into
// files of its own. Between that and the reserve a store can be read.
func (g *Guard) CheckOpen(store string, profile Profile) error {
	tables, err := filepath.Glob(filepath.Join(store, "*.mem"))
	if err != nil {
		return fmt.Errorf("look for the memtables in %s: %w", store, err)
	}
	needed := openMargin + uint64(len(tables))*uint64(profile.memtable())
	usage, err := disk.Usage(g.dir)
	if err != nil || usage.Free >= needed {
		return nil
	}
	return errdefs.ResourceExhaustedf("the disk of %s is full: %d MiB are free, and to open what is there takes up to %d MiB; free some space and start again",
		g.dir, usage.Free>>20, needed>>20)
}
