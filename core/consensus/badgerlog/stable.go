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

// errKeyNotFound has the text by which raft recognizes a missing key.
var errKeyNotFound = errdefs.New(errdefs.NotFound, errors.New("not found"))

// Set stores a value and returns once it is on disk.
func (s *Store) Set(key, value []byte) error {
	s.writes.RLock()
	defer s.writes.RUnlock()
	if err := s.set(stableKey(key), append([]byte(nil), value...)); err != nil {
		return fmt.Errorf("store raft's value %q: %w", key, err)
	}
	return nil
}

// Get returns the value of key. For a missing key it returns an error with the text
// "not found", as raft expects.
func (s *Store) Get(key []byte) ([]byte, error) {
	var value []byte
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(stableKey(key))
		if err != nil {
			return err
		}
		value, err = item.ValueCopy(nil)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, errKeyNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read raft's value %q: %w", key, err)
	}
	return value, nil
}

// SetUint64 stores a number and returns once it is on disk.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns the number under key, 0 if there is none.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	switch {
	case errors.Is(err, errKeyNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(value) != 8:
		return 0, errdefs.Internalf("raft's value %q has %d bytes, not the 8 of a number; restore this server from a snapshot or let it join anew with an empty data directory", key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
