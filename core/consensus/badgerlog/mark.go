// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"github.com/dgraph-io/badger/v4"

	"github.com/drover-project/drover/sdk/errdefs"
)

// The number of commits is stored twice: in the database, written with each commit,
// and in a small file beside it, written after each commit. Badger truncates its
// journal at the first unreadable record without an error. The file then counts more
// commits than the database, and the store refuses to open, because acknowledged
// writes are missing.
//
// The file is not synced. It survives a crash of the process; after a power cut it may
// be older than the database, which is always valid.

// countKey is the key of the number of commits.
var countKey = []byte("n")

const markLen = 8 + 4 // count and checksum

// MarkFile returns the path of the file that counts the commits of the store in dir.
func MarkFile(dir string) string { return dir + ".mark" }

// openMark compares the file with the database and keeps the file open for later
// commits.
func (s *Store) openMark(path string, ignore bool) error {
	count, err := s.readCount()
	if err != nil {
		return err
	}
	s.count = count
	if ignore {
		return nil
	}
	marked, err := readMark(path)
	if err != nil {
		return err
	}
	if marked > count {
		return errdefs.Internalf("the raft log ends at its commit %d, but %d were acknowledged: a record in between is damaged or files are missing. "+
			"Restore the data directory from a backup, or start with an empty one and restore a snapshot; to go on without what is missing, remove %s", count, marked, path)
	}
	if s.mark, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err != nil {
		return fmt.Errorf("open the count of the raft log's commits: %w", err)
	}
	return s.writeMark()
}

// readMark returns the count in the file, 0 if the file is missing or damaged: a
// damaged count says nothing about the log.
func readMark(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the count of the raft log's commits: %w", err)
	}
	if len(b) != markLen || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) {
		return 0, nil
	}
	return binary.BigEndian.Uint64(b), nil
}

func (s *Store) writeMark() error {
	if s.mark == nil {
		return nil
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, markLen), s.count)
	if _, err := s.mark.WriteAt(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), 0); err != nil {
		return fmt.Errorf("write the count of the raft log's commits: %w", err)
	}
	return nil
}

func (s *Store) readCount() (count uint64, err error) {
	err = s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(countKey)
		if err != nil {
			return err
		}
		return item.Value(func(b []byte) error {
			if len(b) != 8 {
				return errdefs.Internalf("the number of the raft log's commits has %d bytes, not 8", len(b))
			}
			count = binary.BigEndian.Uint64(b)
			return nil
		})
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return 0, fmt.Errorf("read the number of the raft log's commits: %w", err)
	}
	return count, nil
}

// commit writes the batch that fill fills, counts it, and returns once it is on disk.
// A batch that is larger than one badger transaction is written as several in order,
// with the count in the last. The caller holds writes.
func (s *Store) commit(fill func(*badger.WriteBatch) error) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	err := s.db.Write(func(batch *badger.WriteBatch) error {
		if err := fill(batch); err != nil {
			return err
		}
		return batch.Set(countKey, binary.BigEndian.AppendUint64(nil, s.count+1))
	})
	if err != nil {
		return err
	}
	s.count++
	return s.writeMark()
}
