// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/errdefs"
)

// restAfter is how long a store must be unused before it rests. It rests after at most twice
// this time.
const restAfter = 15 * time.Second

// DB is an open badger database that rests while nobody uses it: it closes badger, and the
// next use opens it again, which takes some milliseconds. An open badger wakes 40 times a
// second to look for tables to merge, and holds its write buffers and mapped tables. The
// directory stays locked at rest. Stores of ProfileServer do not rest, because Go clears
// their large write buffers each time they are opened.
//
// It is safe for concurrent use, except that badger rejects writes during DropPrefix.
type DB struct {
	opts   badger.Options
	rests  bool
	logger hclog.Logger
	lock   *os.File // keeps other processes out, also at rest; nil where badger has the lock

	mu sync.Mutex
	// idle is signalled when users becomes 0.
	idle sync.Cond
	// badger is nil at rest.
	badger *badger.DB
	users  int
	used   bool // since the timer was set
	timer  *time.Timer
	closed bool
}

// View calls f with a read transaction.
func (d *DB) View(f func(*badger.Txn) error) error {
	return d.use(func(db *badger.DB) error { return db.View(f) })
}

// Write commits the batch that fill fills and returns once it is on disk. A batch that is
// larger than one transaction is committed as several in order.
func (d *DB) Write(fill func(*badger.WriteBatch) error) error {
	return d.use(func(db *badger.DB) error {
		batch := db.NewWriteBatch()
		defer batch.Cancel()
		if err := fill(batch); err != nil {
			return err
		}
		return batch.Flush()
	})
}

// DropPrefix removes all keys that have one of the prefixes, and frees their disk space.
func (d *DB) DropPrefix(prefixes ...[]byte) error {
	return d.use(func(db *badger.DB) error { return db.DropPrefix(prefixes...) })
}

// use calls f with the open database. Badger stays open until the last user has returned.
func (d *DB) use(f func(*badger.DB) error) error {
	db, err := d.begin()
	if err != nil {
		return err
	}
	defer d.end()
	return f(db)
}

func (d *DB) begin() (*badger.DB, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errdefs.Unavailablef("the store in %s is closed", d.opts.Dir)
	}
	if d.badger == nil {
		if err := d.wake(); err != nil {
			return nil, fmt.Errorf("open the store in %s after its rest: %w", d.opts.Dir, err)
		}
	}
	d.users++
	d.used = true
	return d.badger, nil
}

func (d *DB) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 {
		d.idle.Broadcast()
	}
}

// wake opens badger again. The caller holds mu.
func (d *DB) wake() error {
	db, err := openTables(d.opts, false)
	if err != nil {
		return err
	}
	d.awake(db)
	return nil
}

// awake sets the open database, which may rest if it is not used. The caller holds mu.
func (d *DB) awake(db *badger.DB) {
	d.badger = db
	if d.rests {
		d.used = false
		d.timer = time.AfterFunc(restAfter, d.rest)
	}
}

// rest closes badger if nobody has used it since the timer was set.
func (d *DB) rest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.badger == nil {
		return
	}
	if d.used || d.users > 0 {
		d.used = false
		d.timer.Reset(restAfter)
		return
	}
	if err := closeBadger(d.badger); err != nil { // the disk is full, or badger is closed but could not write all
		d.logger.Debug("the idle store was not closed", "error", err)
		if !d.badger.IsClosed() {
			d.timer.Reset(restAfter)
			return
		}
	}
	d.badger = nil
}

// Close waits for the users, and flushes and closes the store. If there is no room for what
// is flushed, it leaves the store open and returns an error of class ResourceExhausted,
// because badger would end the process with a fault. Nothing is lost: when the process has
// ended, the store is as after a crash, and the next Open reads its log.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.users > 0 {
		d.idle.Wait()
	}
	if d.closed {
		return nil
	}
	if d.badger != nil {
		if err := closeBadger(d.badger); err != nil {
			return err
		}
	}
	d.closed, d.badger = true, nil
	if d.timer != nil {
		d.timer.Stop()
	}
	return d.unlock()
}

// unlock lets other processes open the directory.
func (d *DB) unlock() error {
	if d.lock == nil {
		return nil
	}
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("unlock %s: %w", d.opts.Dir, err)
	}
	return nil
}
