// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Open opens a badger database and verifies that all of it can be read. Badger itself
// skips a table with a wrong checksum and finds no keys in a damaged block, so
// acknowledged writes would seem never to have happened. The check reads all tables
// once. FailedPrecondition: the store is damaged. Unavailable: another process
// uses it. ResourceExhausted: the disk has no room to open it.
func Open(dir string, profile Profile, logger hclog.Logger) (*DB, error) {
	return openLocked(dir, profile, logger, func(opts badger.Options) (*badger.DB, error) {
		db, err := openTables(opts)
		if err != nil {
			return nil, err
		}
		if err := verify(db, dir); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return db, nil
	})
}

// OpenDamaged opens the readable part of a badger database, for diagnosis.
func OpenDamaged(dir string, profile Profile, logger hclog.Logger) (*DB, error) {
	return openLocked(dir, profile, logger, func(opts badger.Options) (*badger.DB, error) {
		size, err := replayed(opts)
		if err != nil {
			return nil, err
		}
		return openBadger(opts.WithMemTableSize(size))
	})
}

func openLocked(dir string, profile Profile, logger hclog.Logger, open func(badger.Options) (*badger.DB, error)) (*DB, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	d := &DB{opts: Options(dir, profile, logger).WithBypassLockGuard(ownLock), rests: ownLock && profile == ProfileDev, logger: logger, lock: lock}
	d.idle.L = &d.mu
	db, err := open(d.opts)
	if err != nil {
		return nil, errors.Join(err, d.unlock())
	}
	d.awake(db)
	return d, nil
}

// openTables opens a badger database and verifies that badger has found each table.
func openTables(opts badger.Options) (*badger.DB, error) {
	dir := opts.Dir
	files, err := tables(dir, opts)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := checkIndex(f); err != nil {
			return nil, damaged(dir, fmt.Errorf("the table %s: %w", f, err))
		}
	}
	if err := shrink(opts); err != nil {
		return nil, err
	}
	db, err := openBadger(opts)
	if err != nil {
		return nil, err
	}
	if err := unread(db, opts, files); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openBadger opens a badger database if the disk has room for it; badger panics over some
// damaged files.
func openBadger(opts badger.Options) (db *badger.DB, err error) {
	if err := checkOpen(opts); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, damaged(opts.Dir, errdefs.Internalf("badger failed: %v", r))
		}
	}()
	return badger.Open(opts)
}

// tables returns the files of the tables that belong to the database. The manifest names
// them. Any other table is unfinished or has been merged, because the process was killed
// at that moment, and badger removes it.
func tables(dir string, opts badger.Options) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return nil, fmt.Errorf("look for the tables in %s: %w", dir, err)
	}
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, os.ErrNotExist) {
		if len(files) > 0 { // badger would remove them
			return nil, damaged(dir, fmt.Errorf("the file %s is missing", badger.ManifestFilename))
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which tables belong to the store: %w", err)
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, 0, opts)
	if err != nil {
		return nil, damaged(dir, fmt.Errorf("the file %s: %w", badger.ManifestFilename, err))
	}
	return slices.DeleteFunc(files, func(file string) bool {
		id, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(file), ".sst"), 10, 64)
		_, belongs := manifest.Tables[id]
		return err == nil && !belongs
	}), nil
}

// shrink moves the contents of journals of larger memtables to tables. Badger reads a
// journal into a memtable of the present size, and panics if it does not fit.
func shrink(opts badger.Options) error {
	size, err := replayed(opts)
	if err != nil || size == opts.MemTableSize {
		return err
	}
	db, err := openBadger(opts.WithMemTableSize(size))
	if err != nil {
		return err
	}
	return db.Close()
}

// replayed returns the size of a memtable into which each journal fits. Badger makes a
// journal twice as large as its memtable, and cuts it to its contents when it reads it
// again: a journal of any other size may have been written with a larger memtable. A
// memtable needs up to twice the room of its journal if the values are small.
func replayed(opts badger.Options) (int64, error) {
	journals, err := journals(opts.Dir)
	if err != nil {
		return 0, err
	}
	size := opts.MemTableSize
	for _, n := range journals {
		if n != 2*opts.MemTableSize {
			size = max(size, 2*n)
		}
	}
	return size, nil
}

// journals returns the sizes of the files that hold what memtables have not yet written to
// tables.
func journals(dir string) ([]int64, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, fmt.Errorf("look for the journals in %s: %w", dir, err)
	}
	var sizes []int64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return nil, fmt.Errorf("ask for the size of a journal: %w", err)
		}
		sizes = append(sizes, info.Size())
	}
	return sizes, nil
}

func verify(db *badger.DB, dir string) (err error) {
	defer func() {
		if r := recover(); r != nil { // badger returns no block with a wrong checksum, and then dereferences nil
			err = damaged(dir, errdefs.Internalf("a block of a table cannot be read"))
		}
	}()
	if err := db.VerifyChecksum(); err != nil {
		return damaged(dir, err)
	}
	return nil
}

// unread returns an error if the store has table files that badger has skipped. Badger has
// also let go of the tables that it has just merged; the manifest does not name these any
// more, though their files may stay for a while.
func unread(db *badger.DB, opts badger.Options, files []string) error {
	loaded := map[string]bool{}
	for _, t := range db.Tables() {
		loaded[fmt.Sprintf("%06d.sst", t.ID)] = true
	}
	belong, err := tables(opts.Dir, opts) // read after the tables: badger changes the manifest first
	if err != nil {
		return err
	}
	for _, f := range files {
		if slices.Contains(belong, f) && !loaded[filepath.Base(f)] {
			return damaged(opts.Dir, fmt.Errorf("the table %s cannot be read", f))
		}
	}
	return nil
}

// maxChecksum is an upper bound of the size of an encoded table checksum.
const maxChecksum = 64

// checkIndex verifies the index of a table; badger panics or skips the table if it is
// damaged. The file ends with the index, its length (4 bytes, big endian), its
// checksum, and the length of the checksum.
func checkIndex(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	before := func(n int64) ([]byte, error) {
		if end -= n; end < 0 {
			return nil, errdefs.Internalf("it is cut off")
		}
		b := make([]byte, n)
		_, err := f.ReadAt(b, end)
		return b, err
	}
	length := func(most int64) (int64, error) {
		b, err := before(4)
		if err != nil {
			return 0, err
		}
		if n := int64(binary.BigEndian.Uint32(b)); n <= most {
			return n, nil
		}
		return 0, errdefs.Internalf("its end is damaged")
	}
	n, err := length(maxChecksum)
	if err != nil {
		return err
	}
	sum, err := before(n)
	if err != nil {
		return err
	}
	if n, err = length(end); err != nil {
		return err
	}
	if n == 0 { // the checksum of no data is zero, so a footer of zeros would pass
		return errdefs.Internalf("its end is empty")
	}
	index, err := before(n)
	if err != nil {
		return err
	}
	want := &pb.Checksum{}
	if err := proto.Unmarshal(sum, want); err != nil {
		return errdefs.Internalf("its checksum cannot be read: %w", err)
	}
	return y.VerifyChecksum(index, want)
}

func damaged(dir string, why error) error {
	return errdefs.FailedPreconditionf("what %s holds is damaged: put it back from a backup: %w", dir, why)
}
