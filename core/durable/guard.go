// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"fmt"

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

// openMargin is the space that opening a store needs besides what its memtables hold.
const openMargin = 16 << 20

// checkOpen returns an error of class ResourceExhausted if there is not even room to open
// a store: badger first moves what its memtables hold to files of their own. With more
// room than that, but less than the reserve of its Guard, a store can be read.
func checkOpen(opts badger.Options) error {
	journals, err := journals(opts.Dir)
	if err != nil {
		return err
	}
	needed := uint64(openMargin)
	for _, size := range journals {
		needed += uint64(min(size, opts.MemTableSize)) // badger makes a journal larger than it lets it grow
	}
	usage, err := disk.Usage(opts.Dir)
	if err != nil || usage.Free >= needed {
		return nil
	}
	return errdefs.ResourceExhaustedf("the disk of %s is full: %d MiB are free, and to open what is there takes up to %d MiB; free some space and try again",
		opts.Dir, usage.Free>>20, needed>>20)
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
