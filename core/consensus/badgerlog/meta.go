// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/drover-project/drover/sdk/errdefs"
)

// meta says which log keys in the database are valid.
type meta struct {
	// Epoch increases whenever the whole log is deleted. Keys of other epochs are
	// invalid.
	Epoch uint32
	// Floor is the lowest valid index. It is written when the front of the log is
	// deleted, so that the store need not search through deleted keys.
	Floor uint64
}

func (m meta) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, m.Epoch)
	return binary.BigEndian.AppendUint64(b, m.Floor)
}

func (s *Store) readMeta() (meta, error) {
	var m meta
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(metaKey)
		if err != nil {
			return err
		}
		return item.Value(func(b []byte) error {
			if len(b) != 12 {
				return errdefs.Internalf("the record of the log's contents has %d bytes, not 12; restore this server from a snapshot or let it join anew with an empty data directory", len(b))
			}
			m = meta{Epoch: binary.BigEndian.Uint32(b), Floor: binary.BigEndian.Uint64(b[4:])}
			return nil
		})
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return m, fmt.Errorf("read the bounds of the raft log: %w", err)
	}
	return m, nil
}

func (s *Store) writeMeta(m meta) error {
	s.writes.RLock()
	defer s.writes.RUnlock()
	return s.set(metaKey, m.encode())
}
