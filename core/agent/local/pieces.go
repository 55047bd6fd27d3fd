// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// A value above durable.LargestValue is split: its key has a head, which says where the
// pieces are, and they are at piece/KEY, a zero byte, the number of the split and the
// number of the piece. The head is written after the pieces, and pieces are never
// overwritten. So a head always refers to complete pieces, even after a crash: the pieces
// of the old head are deleted only after the new head is written.

// isHead is the user metadata of a head. Other values have none.
const isHead = 1

// pieces says where the pieces of a value are.
type pieces struct {
	split uint64 // number of this split: distinguishes the new pieces of a key from its old ones
	count uint32
}

const pieceEnd = 1 + 8 + 4 // after the key

func pieceKey(key string, split uint64, n uint32) []byte {
	b := append([]byte(piecePrefix+key), 0)
	b = binary.BigEndian.AppendUint64(b, split)
	return binary.BigEndian.AppendUint32(b, n)
}

func (p pieces) encode() []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, p.split), p.count)
}

func decodePieces(head []byte) (pieces, error) {
	if len(head) != 12 {
		return pieces{}, errdefs.Internalf("the head of a split value has %d bytes, not 12", len(head))
	}
	return pieces{split: binary.BigEndian.Uint64(head), count: binary.BigEndian.Uint32(head[8:])}, nil
}

// set replaces a value.
func (s *Store) set(wb *badger.WriteBatch, key string, value []byte) error {
	old := s.split[key]
	delete(s.split, key)
	if len(value) <= durable.LargestValue {
		if err := wb.Set([]byte(key), value); err != nil {
			return err
		}
		return deletePieces(wb, key, old)
	}
	s.made++
	p := pieces{split: s.made}
	for piece := range slices.Chunk(value, durable.LargestValue) {
		if err := wb.Set(pieceKey(key, p.split, p.count), piece); err != nil {
			return err
		}
		p.count++
	}
	s.split[key] = p
	if err := wb.SetEntry(badger.NewEntry([]byte(key), p.encode()).WithMeta(isHead)); err != nil {
		return err
	}
	return deletePieces(wb, key, old)
}

func (s *Store) delete(wb *badger.WriteBatch, key string) error {
	old := s.split[key]
	delete(s.split, key)
	if err := wb.Delete([]byte(key)); err != nil {
		return err
	}
	return deletePieces(wb, key, old)
}

func deletePieces(wb *badger.WriteBatch, key string, p pieces) error {
	for n := range p.count {
		if err := wb.Delete(pieceKey(key, p.split, n)); err != nil {
			return err
		}
	}
	return nil
}

// read returns a copy of a value, joined from its pieces.
func read(tx *badger.Txn, item *badger.Item) ([]byte, error) {
	value, err := item.ValueCopy(nil)
	if err != nil || item.UserMeta() != isHead {
		return value, err
	}
	p, err := decodePieces(value)
	if err != nil {
		return nil, err
	}
	value = nil
	for n := range p.count {
		piece, err := tx.Get(pieceKey(string(item.Key()), p.split, n))
		if err != nil {
			return nil, errdefs.Internalf("piece %d of %d of %s: %v", n+1, p.count, item.Key(), err) // otherwise the value would seem to be absent
		}
		if err := piece.Value(func(b []byte) error {
			value = append(value, b...)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return value, nil
}

// findPieces finds the pieces of each value, and deletes those that a crash has left
// without a head.
func (s *Store) findPieces() error {
	var left [][]byte
	err := s.db.View(func(tx *badger.Txn) error {
		opts := badger.DefaultIteratorOptions
		opts.Prefix, opts.PrefetchValues = []byte(piecePrefix), false
		it := tx.NewIterator(opts)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			whole := it.Item().KeyCopy(nil)
			if len(whole) < len(piecePrefix)+pieceEnd {
				return errdefs.Internalf("the piece %q has no number", whole)
			}
			end := len(whole) - pieceEnd
			key, split := strings.TrimPrefix(string(whole[:end]), piecePrefix), binary.BigEndian.Uint64(whole[end+1:])
			s.made = max(s.made, split)
			p, err := headOf(tx, key)
			if err != nil {
				return err
			}
			if p.split == split {
				s.split[key] = p
			} else {
				left = append(left, whole)
			}
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = s.db.Write(func(wb *badger.WriteBatch) error {
			for _, key := range left {
				if err := wb.Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("look for the pieces of large values in the node's state: %w", err)
	}
	return nil
}

// headOf returns the pieces of a key's value; none if it is not split or does not exist.
func headOf(tx *badger.Txn, key string) (pieces, error) {
	item, err := tx.Get([]byte(key))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return pieces{}, nil
	}
	if err != nil || item.UserMeta() != isHead {
		return pieces{}, err
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return pieces{}, err
	}
	return decodePieces(value)
}
