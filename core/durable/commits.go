// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Commits counts the commits of a database twice: in the database, written with each
// commit, and in a small file beside it, written after each commit. Badger truncates its
// journal at the first unreadable record without an error. The file then counts more
// commits than the database, and the owner must not use it, because acknowledged writes are
// missing.
//
// The file is not synced. It survives a crash of the process; after a power cut it may be
// older than the database, which is always valid.
type Commits struct {
	db   *DB
	mu   sync.Mutex // held during a commit
	n    uint64
	file *os.File
}

// commitsKey is the key of the number of commits.
var commitsKey = []byte("n")

const commitsLen = 8 + 4 // count and checksum

// CommitsFile returns the path of the file that counts the commits of the database in dir.
func CommitsFile(dir string) string { return dir + ".mark" }

// LostCommitsError says that acknowledged commits of a database are missing.
type LostCommitsError struct {
	Has, Acknowledged uint64
	File              string // without it, the database is used as it is
}

func (e *LostCommitsError) Error() string {
	return fmt.Sprintf("it ends at its commit %d, but %d were acknowledged: a record in between is damaged or files are missing", e.Has, e.Acknowledged)
}

// CountCommits compares the file of the database in dir with the database, and then counts
// on. A *LostCommitsError: commits are missing.
func CountCommits(db *DB, dir string) (*Commits, error) {
	c, err := UncheckedCommits(db)
	if err != nil {
		return nil, err
	}
	path := CommitsFile(dir)
	marked, err := readCommits(path)
	if err != nil {
		return nil, err
	}
	if marked > c.n {
		return nil, &LostCommitsError{Has: c.n, Acknowledged: marked, File: path}
	}
	if c.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err != nil {
		return nil, fmt.Errorf("open the count of commits: %w", err)
	}
	return c, c.mark()
}

// UncheckedCommits counts in the database only, for diagnosis.
func UncheckedCommits(db *DB) (*Commits, error) {
	c := &Commits{db: db}
	err := db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(commitsKey)
		if err != nil {
			return err
		}
		return item.Value(func(b []byte) error {
			if len(b) != 8 {
				return errdefs.Internalf("it has %d bytes, not 8", len(b))
			}
			c.n = binary.BigEndian.Uint64(b)
			return nil
		})
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return nil, fmt.Errorf("read the number of commits: %w", err)
	}
	return c, nil
}

// Write commits the batch that fill fills, counts it, and returns once it is on disk. A
// batch that is larger than one badger transaction is written as several in order, with the
// count in the last.
func (c *Commits) Write(fill func(*badger.WriteBatch) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.db.Write(func(batch *badger.WriteBatch) error {
		if err := fill(batch); err != nil {
			return err
		}
		return batch.Set(commitsKey, binary.BigEndian.AppendUint64(nil, c.n+1))
	})
	if err != nil {
		return err
	}
	c.n++
	return c.mark()
}

// Close closes the file.
func (c *Commits) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

func (c *Commits) mark() error {
	if c.file == nil {
		return nil
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, commitsLen), c.n)
	if _, err := c.file.WriteAt(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), 0); err != nil {
		return fmt.Errorf("write the count of commits: %w", err)
	}
	return nil
}

// readCommits returns the count in the file, 0 if the file is missing or damaged: a damaged
// count says nothing about the database.
func readCommits(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the count of commits: %w", err)
	}
	if len(b) != commitsLen || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) {
		return 0, nil
	}
	return binary.BigEndian.Uint64(b), nil
}
