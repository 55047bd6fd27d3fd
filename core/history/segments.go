// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/drover-project/drover/core/durable"
)

// parts is the number of segments into which the bytes and the age of a kind are divided.
// What is dropped at once is one of them.
const parts = 8

// segment is a range of keys that is dropped as a whole.
type segment struct {
	start int64 // unix nanoseconds
	bytes int64
}

// segments are the segments of one kind, the oldest first.
type segments struct {
	kind kind
	list []*segment
}

// prefix returns the beginning of the keys of a segment: the kind and the start.
func (s *segments) prefix(of *segment) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(s.kind)}, uint64(of.start))
}

// key returns the key of an object in a segment.
func (s *segments) key(of *segment, id string) []byte { return append(s.prefix(of), id...) }

// prefixBytes is the length of a prefix.
const prefixBytes = 9

// entryBytes is about what badger needs for an entry besides its key and value.
const entryBytes = 24

func sizeOf(key []byte, value int) int64 { return int64(len(key)+value) + entryBytes }

// current returns the segment for the next object, and begins one if the last is full or
// has been written for long enough.
func (s *segments) current(now time.Time, l limits) *segment {
	begin := now.UnixNano()
	if n := len(s.list); n > 0 {
		last := s.list[n-1]
		if last.bytes < l.bytes/parts && begin-last.start < int64(l.age)/parts {
			return last
		}
		begin = max(begin, last.start+1) // the clock may have been set back
	}
	next := &segment{start: begin}
	s.list = append(s.list, next)
	return next
}

// outdated takes the segments off the list that must go: the oldest while all together are
// too large, and those that ended longer ago than the age.
func (s *segments) outdated(now time.Time, l limits) (gone []*segment) {
	total := int64(0)
	for _, of := range s.list {
		total += of.bytes
	}
	for len(s.list) > 0 {
		oldest, end := s.list[0], s.list[0].start+int64(l.age)/parts
		if len(s.list) > 1 {
			end = s.list[1].start
		}
		if total <= l.bytes && now.UnixNano()-end < int64(l.age) {
			break
		}
		total -= oldest.bytes
		gone, s.list = append(gone, oldest), s.list[1:]
	}
	return gone
}

// readSegments finds the segments of a kind and their sizes.
func readSegments(txn *badger.Txn, of kind) *segments {
	s := &segments{kind: of}
	opts := badger.DefaultIteratorOptions
	opts.PrefetchValues, opts.Prefix = false, []byte{byte(of)}
	it := txn.NewIterator(opts)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		if len(key) < prefixBytes {
			continue
		}
		start := int64(binary.BigEndian.Uint64(key[1:prefixBytes]))
		if n := len(s.list); n == 0 || s.list[n-1].start != start {
			s.list = append(s.list, &segment{start: start})
		}
		s.list[len(s.list)-1].bytes += sizeOf(key, int(it.Item().ValueSize()))
	}
	return s
}

// drop removes segments from the disk.
func (s *segments) drop(db *durable.DB, gone []*segment) error {
	var prefixes [][]byte
	for _, of := range gone {
		prefixes = append(prefixes, s.prefix(of))
	}
	if len(prefixes) == 0 {
		return nil
	}
	if err := db.DropPrefix(prefixes...); err != nil {
		return fmt.Errorf("free the disk of what is too old for the history: %w", err)
	}
	return nil
}
