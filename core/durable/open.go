// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Open opens a badger and checks that all of it can be read. Badger itself leaves out
// a table whose checksum is wrong, and finds no key in a block that is damaged: to its
// caller, what was acknowledged was never there. The check reads all tables once.
func Open(dir string, profile Profile, logger hclog.Logger) (*badger.DB, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return nil, fmt.Errorf("look for the tables in %s: %w", dir, err)
	}
	for _, f := range files {
		if err := checkIndex(f); err != nil {
			return nil, damaged(dir, fmt.Errorf("the table %s: %w", f, err))
		}
	}
	db, err := badger.Open(Options(dir, profile, logger))
	if err != nil {
		return nil, err
	}
	err = unread(db, dir, files)
	if err == nil {
		err = verify(db, dir)
	}
	if err != nil {
		_ = db.Close() // the first error is the one that counts
		return nil, err
	}
	return db, nil
}

// OpenDamaged opens what can be read of a badger, for who looks for the fault.
func OpenDamaged(dir string, profile Profile, logger hclog.Logger) (*badger.DB, error) {
	return badger.Open(Options(dir, profile, logger))
}

func verify(db *badger.DB, dir string) (err error) {
	defer func() {
		if r := recover(); r != nil { // badger has no block whose checksum is wrong, and uses it
			err = damaged(dir, errdefs.Internalf("a block of a table cannot be read"))
		}
	}()
	if err := db.VerifyChecksum(); err != nil {
		return damaged(dir, err)
	}
	return nil
}

// unread refuses a store in which tables lie that badger has left out. One that badger
// has just merged into others is gone in a moment.
func unread(db *badger.DB, dir string, files []string) error {
	for try := 0; ; try++ {
		loaded := map[string]bool{}
		for _, t := range db.Tables() {
			loaded[fmt.Sprintf("%06d.sst", t.ID)] = true
		}
		left := ""
		for _, f := range files {
			if _, err := os.Stat(f); err == nil && !loaded[filepath.Base(f)] {
				left = f
			}
		}
		if left == "" {
			return nil
		}
		if try == 10 {
			return damaged(dir, fmt.Errorf("the table %s cannot be read", left))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// maxChecksum is more than the encoded checksum of a table takes.
const maxChecksum = 64

// checkIndex checks the index of a table, at whose damage badger panics or leaves the
// table out. At the end of its file lie the index, its length (4 bytes, the highest
// first), its checksum, and the length of that.
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
