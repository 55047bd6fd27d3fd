// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
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
	return openLocked(dir, profile, logger, func(opts badger.Options) (*badger.DB, error) { return openTables(opts, true) })
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

// openTables verifies the tables of a badger database, opens it, and verifies that badger has
// found each table. With all it reads each table whole; otherwise only the index and the last
// block.
func openTables(opts badger.Options, all bool) (*badger.DB, error) {
	dir := opts.Dir
	files, missing, err := tables(dir, opts)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, damaged(dir, fmt.Errorf("tables are missing: %s", strings.Join(missing, ", ")))
	}
	for _, f := range files {
		if err := checkTable(f, all); err != nil {
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
// damaged files, and its errors do not tell damage from a file that the process may not open.
func openBadger(opts badger.Options) (db *badger.DB, err error) {
	if err := checkOpen(opts); err != nil {
		return nil, err
	}
	if err := checkFiles(opts.Dir); err != nil {
		return nil, err
	}
	if err := removeEmpty(opts.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, damaged(opts.Dir, errdefs.Internalf("badger failed: %v", r))
		}
	}()
	if db, err = badger.Open(opts); err == nil {
		return db, nil
	}
	if unreadable := errors.Join(checkFiles(opts.Dir), checkOpen(opts)); unreadable != nil {
		return nil, errors.Join(err, unreadable)
	}
	return nil, damaged(opts.Dir, err)
}

// lockName is the file with which badger locks a directory where lockDir does not.
const lockName = "LOCK"

// checkFiles returns an error if a file of a store cannot be opened for reading and writing.
// Badger ends the process if it cannot open the one that counts garbage.
func checkFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the files of the store: %w", err)
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // nothing was written
		}
	}()
	for _, e := range entries { // all at once, as badger has them open
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == lockName:
			continue
		case e.IsDir():
			return damaged(dir, fmt.Errorf("%s is a directory", path))
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("open a file of the store, which the agent must be able to read and write: %w", err)
		}
		files = append(files, f)
	}
	return nil
}

// removeEmpty removes empty files of the value log, which a killed process has just made:
// badger fails over them once, and gives them their size.
func removeEmpty(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		return fmt.Errorf("look for the value log in %s: %w", dir, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 0 {
			continue
		}
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("remove an empty file of the value log: %w", err)
		}
	}
	return nil
}

// tables returns the files of the tables that belong to the database. The manifest names
// them. Any other table is unfinished or has been merged, because the process was killed
// at that moment, and badger removes it. Missing are those that it names and that do not exist;
// while the database is open, these may be tables that were made meanwhile.
func tables(dir string, opts badger.Options) (files, missing []string, err error) {
	files, err = filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return nil, nil, fmt.Errorf("look for the tables in %s: %w", dir, err)
	}
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, os.ErrNotExist) {
		if len(files) > 0 { // badger would remove them
			return nil, nil, damaged(dir, fmt.Errorf("the file %s is missing", badger.ManifestFilename))
		}
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read which tables belong to the store: %w", err)
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, 0, opts)
	if err != nil {
		return nil, nil, damaged(dir, fmt.Errorf("the file %s: %w", badger.ManifestFilename, err))
	}

	for id := range manifest.Tables {
		if file := filepath.Join(dir, tableName(id)); !slices.Contains(files, file) {
			missing = append(missing, file)
		}
	}
	return slices.DeleteFunc(files, func(file string) bool {
		id, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(file), ".sst"), 10, 64)
		_, belongs := manifest.Tables[id]
		return err == nil && !belongs
	}), missing, nil
}

// tableName returns the name of the file of a table.
func tableName(id uint64) string { return fmt.Sprintf("%06d.sst", id) }

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

// unread returns an error if the store has table files that badger has skipped. Badger has
// also let go of the tables that it has just merged; the manifest does not name these any
// more, though their files may stay for a while.
func unread(db *badger.DB, opts badger.Options, files []string) error {
	loaded := map[string]bool{}
	for _, t := range db.Tables() {
		loaded[tableName(t.ID)] = true
	}
	belong, _, err := tables(opts.Dir, opts) // read after the tables: badger changes the manifest first
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

// section is a part of a table from its end backwards.
type section struct {
	of  io.ReaderAt
	end int64
}

// before returns the last n bytes, and cuts them off.
func (s *section) before(n int64) ([]byte, error) {
	if s.end < n {
		return nil, errdefs.Internalf("it is cut off")
	}
	s.end -= n
	b := make([]byte, n)
	_, err := s.of.ReadAt(b, s.end)
	return b, err
}

// length cuts off a length of 4 bytes, big endian, which is at most this.
func (s *section) length(most int64) (int64, error) {
	b, err := s.before(4)
	if err != nil {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint32(b))
	if n > most {
		return 0, errdefs.Internalf("its end is damaged")
	}
	return n, nil
}

// checksum cuts off a checksum and, behind it, its length.
func (s *section) checksum() (*pb.Checksum, error) {
	n, err := s.length(maxChecksum)
	if err != nil {
		return nil, err
	}
	b, err := s.before(n)
	if err != nil {
		return nil, err
	}
	sum := &pb.Checksum{}
	if err := proto.Unmarshal(b, sum); err != nil {
		return nil, errdefs.Internalf("its checksum cannot be read: %w", err)
	}
	return sum, nil
}

// checkTable verifies the index of a table, and its last block or all of them: badger panics
// over a damaged one in goroutines of its own, or skips the table. The file ends with the
// index, its length and its checksum. Each block ends with the checksum of the rest of it.
func checkTable(file string, all bool) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	index, err := readIndex(&section{f, info.Size()})
	if err != nil {
		return err
	}
	first := 0
	if !all {
		first = max(0, index.OffsetsLength()-1)
	}
	var block []byte
	for i := first; i < index.OffsetsLength(); i++ {
		var at fb.BlockOffset
		if !index.Offsets(&at, i) {
			return errdefs.Internalf("its index has no block %d", i)
		}
		block = slices.Grow(block[:0], int(at.Len()))[:at.Len()]
		if _, err := f.ReadAt(block, int64(at.Offset())); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		if err := checkBlock(block); err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

// readIndex returns the index of a table if its checksum is right.
func readIndex(table *section) (*fb.TableIndex, error) {
	want, err := table.checksum()
	if err != nil {
		return nil, err
	}
	n, err := table.length(table.end)
	if err != nil {
		return nil, err
	}
	if n == 0 { // the checksum of no data is zero, so a footer of zeros would pass
		return nil, errdefs.Internalf("its end is empty")
	}
	index, err := table.before(n)
	if err != nil {
		return nil, err
	}
	if err := y.VerifyChecksum(index, want); err != nil {
		return nil, err
	}
	return fb.GetRootAsTableIndex(index, 0), nil
}

// checkBlock verifies the checksum of a block.
func checkBlock(block []byte) error {
	rest := &section{bytes.NewReader(block), int64(len(block))}
	want, err := rest.checksum()
	if err != nil {
		return err
	}
	return y.VerifyChecksum(block[:rest.end], want)
}

func damaged(dir string, why error) error {
	return errdefs.FailedPreconditionf("what %s holds is damaged: %w", dir, why)
}
