// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// entryInPieces is the first byte of the head of a split entry: the length of the
// whole entry follows, then its first piece.
const entryInPieces = 2

// writeEntries writes the entries in order. badger commits the transactions of a batch
// in order, so a crash leaves a prefix.
func (s *Store) writeEntries(epoch uint32, floor uint64, logs []*raft.Log) error {
	return s.commits.Write(func(batch *badger.WriteBatch) error {
		for _, log := range logs {
			if log.Index < floor {
				return errdefs.FailedPreconditionf("entry %d lies below %d, the first index that this log still takes", log.Index, floor)
			}
			if err := putEntry(batch, epoch, log); err != nil {
				return err
			}
		}
		return nil
	})
}

// putEntry writes the pieces of a large entry before its head, so that an entry with a
// head is complete.
func putEntry(batch *badger.WriteBatch, epoch uint32, log *raft.Log) error {
	value := encodeEntry(log)
	if len(value) <= largestPiece {
		return batch.Set(logKey(epoch, log.Index), value)
	}
	piece := uint32(1)
	for rest := value[largestPiece:]; len(rest) > 0; piece++ {
		n := min(len(rest), largestPiece)
		if err := batch.Set(pieceKey(epoch, log.Index, piece), rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	head := binary.AppendUvarint([]byte{entryInPieces}, uint64(len(value)))
	return batch.Set(logKey(epoch, log.Index), append(head, value[:largestPiece]...))
}

// readEntry returns a copy of the encoded entry, joined from its pieces.
func (s *Store) readEntry(epoch uint32, index uint64) ([]byte, error) {
	var value []byte
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(logKey(epoch, index))
		if err != nil {
			return err
		}
		if value, err = item.ValueCopy(nil); err != nil {
			return err
		}
		if len(value) == 0 || value[0] != entryInPieces {
			return nil
		}
		value, err = readPieces(txn, epoch, index, value[1:])
		return err
	})
	return value, err
}

func readPieces(txn *badger.Txn, epoch uint32, index uint64, head []byte) ([]byte, error) {
	size, n := binary.Uvarint(head)
	if n <= 0 || size < uint64(len(head)-n) {
		return nil, damaged(index)
	}
	// The stored size is not used for the allocation, because it may be damaged: the
	// pieces show the real size.
	whole := append([]byte(nil), head[n:]...)
	for piece := uint32(1); uint64(len(whole)) < size; piece++ {
		item, err := txn.Get(pieceKey(epoch, index, piece))
		if err != nil {
			return nil, fmt.Errorf("piece %d: %w", piece, damaged(index))
		}
		if err := item.Value(func(b []byte) error {
			whole = append(whole, b...)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	if uint64(len(whole)) != size {
		return nil, damaged(index)
	}
	return whole, nil
}

// set writes one key and returns once it is on disk. The caller holds writes.
func (s *Store) set(key, value []byte) error {
	return s.commits.Write(func(batch *badger.WriteBatch) error { return batch.Set(key, value) })
}
