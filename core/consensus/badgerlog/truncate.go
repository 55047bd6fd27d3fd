// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// deleteAll starts a new epoch, which invalidates all entries.
func (s *Store) deleteAll() error {
	s.mu.RLock()
	next := meta{Epoch: s.meta.Epoch + 1}
	s.mu.RUnlock()
	if err := s.writeMeta(next); err != nil {
		return err
	}
	s.mu.Lock()
	s.meta, s.first, s.last, s.oldest = next, 0, 0, 0
	s.mu.Unlock()
	return s.dropOlderEpochs()
}

// deleteFront raises the floor to the first index to keep.
func (s *Store) deleteFront(floor uint64) error {
	s.mu.RLock()
	next := meta{Epoch: s.meta.Epoch, Floor: floor}
	s.mu.RUnlock()
	// If the log has a gap, the next entry may be above the floor. There is a next entry,
	// since otherwise the caller would have called deleteAll.
	first, _, err := s.seekFrom(next.Epoch, floor)
	if err != nil {
		return err
	}
	if err := s.writeMeta(next); err != nil {
		return err
	}
	s.mu.Lock()
	s.meta, s.first = next, first
	s.mu.Unlock()
	return s.dropBelow(floor)
}

// deleteBack deletes key by key from the highest, so that a crash leaves a log without
// a gap. Raft uses it when a follower's log conflicts with a new leader's, which
// concerns few entries.
func (s *Store) deleteBack(lo, hi uint64) error {
	s.mu.RLock()
	epoch, last := s.meta.Epoch, s.last
	s.mu.RUnlock()
	if err := s.deleteKeys(epoch, lo, hi); err != nil {
		return err
	}
	if hi < last {
		return nil
	}
	newest, err := s.seekLast(epoch)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.last = newest
	s.mu.Unlock()
	return nil
}

func (s *Store) deleteKeys(epoch uint32, lo, hi uint64) error {
	s.writes.RLock()
	defer s.writes.RUnlock()
	return s.commits.Write(func(batch *badger.WriteBatch) error {
		for index := hi; index >= lo; index-- {
			if err := batch.Delete(logKey(epoch, index)); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropBelow frees the disk space of every segment that is completely below floor.
func (s *Store) dropBelow(floor uint64) error {
	keep := floor >> segmentBits
	s.mu.RLock()
	epoch, oldest := s.meta.Epoch, s.oldest
	s.mu.RUnlock()
	if oldest >= keep {
		return nil
	}
	var prefixes [][]byte
	for segment := oldest; segment < keep; segment++ {
		prefixes = append(prefixes, segmentPrefix(kindLog, epoch, segment), segmentPrefix(kindPiece, epoch, segment))
	}
	if err := s.drop(prefixes); err != nil {
		return err
	}
	s.mu.Lock()
	if s.meta.Epoch == epoch {
		s.oldest = max(s.oldest, keep)
	}
	s.mu.Unlock()
	return nil
}

// dropOlderEpochs frees the disk space of older epochs.
func (s *Store) dropOlderEpochs() error {
	s.mu.RLock()
	current := s.meta.Epoch
	s.mu.RUnlock()
	var prefixes [][]byte
	for _, kind := range []byte{kindLog, kindPiece} {
		for epoch := uint32(0); epoch < current; epoch++ {
			found, ok, err := s.nextEpoch(kind, epoch)
			if err != nil {
				return err
			}
			if !ok || found >= current {
				break
			}
			prefixes = append(prefixes, epochPrefix(kind, found))
			epoch = found
		}
	}
	return s.drop(prefixes)
}

// drop removes all keys with the prefixes from the database and the disk. Writes wait
// meanwhile, because badger would reject them.
func (s *Store) drop(prefixes [][]byte) error {
	if len(prefixes) == 0 {
		return nil
	}
	s.writes.Lock()
	defer s.writes.Unlock()
	if err := s.db.DropPrefix(prefixes...); err != nil {
		return fmt.Errorf("free the disk of deleted raft log entries: %w", err)
	}
	return nil
}

// seekFrom returns the lowest stored index at or above from.
func (s *Store) seekFrom(epoch uint32, from uint64) (index uint64, found bool, err error) {
	prefix := epochPrefix(kindLog, epoch)
	err = s.iterate(prefix, false, func(it *badger.Iterator) {
		it.Seek(logKey(epoch, from))
		if it.ValidForPrefix(prefix) {
			index, found = indexOf(it.Item().Key()), true
		}
	})
	return index, found, err
}

// seekLast returns the highest stored index, 0 if there is none.
func (s *Store) seekLast(epoch uint32) (index uint64, err error) {
	prefix := epochPrefix(kindLog, epoch)
	err = s.iterate(prefix, true, func(it *badger.Iterator) {
		it.Seek(append(epochPrefix(kindLog, epoch), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
		if it.ValidForPrefix(prefix) {
			index = indexOf(it.Item().Key())
		}
	})
	return index, err
}

// nextEpoch returns the lowest epoch >= from that has keys of the kind.
func (s *Store) nextEpoch(kind byte, from uint32) (epoch uint32, found bool, err error) {
	prefix := []byte{kind}
	err = s.iterate(prefix, false, func(it *badger.Iterator) {
		it.Seek(epochPrefix(kind, from))
		if it.ValidForPrefix(prefix) {
			epoch, found = epochOf(it.Item().Key()), true
		}
	})
	return epoch, found, err
}

// iterate calls look with an iterator over the keys with the prefix.
func (s *Store) iterate(prefix []byte, reverse bool, look func(*badger.Iterator)) error {
	return s.db.View(func(txn *badger.Txn) error {
		opts := badger.DefaultIteratorOptions
		opts.PrefetchValues = false
		opts.Reverse = reverse
		opts.Prefix = prefix
		it := txn.NewIterator(opts)
		defer it.Close()
		look(it)
		return nil
	})
}
