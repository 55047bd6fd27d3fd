// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"fmt"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/shirou/gopsutil/v4/disk"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Guard watches the free space of a file system. Badger writes through memory maps of
// sparse files, so a write to a full disk is not an error but a fault that ends the
// process. A writer to badger must therefore first ask a Guard, and reject the write
// while less than the reserve is free. It is safe for concurrent use.
type Guard struct {
	dir     string
	reserve uint64 // bytes
}

// New returns a Guard that reserves bytes on dir's file system.
func New(dir string, reserve uint64) *Guard { return &Guard{dir: dir, reserve: reserve} }

// Check returns an error of class ResourceExhausted while less than the reserve is
// free. It queries the file system each time, which takes about a microsecond, because
// a fast disk fills within any caching interval. A file system that does not report
// its free space counts as having room.
func (g *Guard) Check() error {
	if g == nil {
		return nil
	}
	usage, err := disk.Usage(g.dir)
	if err != nil || usage.Free >= g.reserve {
		return nil
	}
	return errdefs.ResourceExhaustedf("the disk of %s is full: %d MiB are free and nothing is written below %d MiB; free some space; then writes are accepted again",
		g.dir, usage.Free>>20, g.reserve>>20)
}

// CheckFor returns an error of class ResourceExhausted while less than needed is free: for
// a write that is not refused at the reserve, because others rely on it.
func (g *Guard) CheckFor(needed uint64) error {
	if g == nil {
		return nil
	}
	usage, err := disk.Usage(g.dir)
	if err != nil || usage.Free >= needed {
		return nil
	}
	return errdefs.ResourceExhaustedf("the disk of %s is full: %d KiB are free, and this needs %d KiB; free some space", g.dir, usage.Free>>10, needed>>10)
}

// openMargin is the space that opening a store needs besides its memtables.
const openMargin = 16 << 20

// CheckOpen returns an error of class ResourceExhausted if there is not even room to
// open the store: badger first writes the contents of its memtables to files. With
// more room than that, but less than the reserve, a store can be read.
func (g *Guard) CheckOpen(store string, profile Profile) error {
	return g.checkOpen(store, profile.memtable())
}

func (g *Guard) checkOpen(store string, memtable int64) error {
	tables, err := filepath.Glob(filepath.Join(store, "*.mem"))
	if err != nil {
		return fmt.Errorf("look for the memtables in %s: %w", store, err)
	}
	needed := openMargin + uint64(len(tables))*uint64(memtable)
	usage, err := disk.Usage(g.dir)
	if err != nil || usage.Free >= needed {
		return nil
	}
	return errdefs.ResourceExhaustedf("the disk of %s is full: %d MiB are free, and to open what is there takes up to %d MiB; free some space and start again",
		g.dir, usage.Free>>20, needed>>20)
}

// closeMargin is the space that closing a store needs besides its memtable.
const closeMargin = 1 << 20

// closeBadger flushes and closes a database, or leaves it open if there is no room for what
// is flushed: see DB.Close.
func closeBadger(db *badger.DB) error {
	opts := db.Opts()
	if err := New(opts.Dir, 0).CheckFor(uint64(opts.MemTableSize) + closeMargin); err != nil && !opts.InMemory {
		return fmt.Errorf("the store is left as after a crash, from which the next start recovers: %w", err)
	}
	return db.Close()
}
