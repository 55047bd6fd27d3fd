// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"sync"
	"sync/atomic"
)

// Store holds the newest state. There is one writer at a time, and any number of
// readers, which never wait.
type Store struct {
	mu      sync.Mutex // held by the writer
	writer  *tables
	current atomic.Pointer[View]
	watches watches
	feeds   feeds
}

// FirstIndex is the index of the objects that a new cluster contains.
const FirstIndex = 1

// New returns a store with the objects of a new cluster: the namespace default, the
// node pools all and default, and the scheduler configuration.
func New() *Store {
	s := &Store{writer: newTables()}
	empty := newTables()
	s.current.Store(&View{t: empty})
	tx := s.Begin()
	tx.SetIndex(FirstIndex)
	tx.seed()
	tx.Commit()
	return s
}

// View returns the newest committed state.
func (s *Store) View() *View { return s.current.Load() }

// Update runs fn in a transaction at the index and commits it, or rolls it back if fn
// returns an error.
func (s *Store) Update(index uint64, fn func(*Tx) error) error {
	tx := s.Begin()
	done := false
	defer func() {
		if !done {
			tx.Rollback()
		}
	}()
	tx.SetIndex(index)
	if err := fn(tx); err != nil {
		return err
	}
	tx.Commit()
	done = true
	return nil
}

// Begin starts a transaction. It waits for the previous one to end. The caller must
// end it with Commit or Rollback.
func (s *Store) Begin() *Tx {
	s.mu.Lock()
	return &Tx{s: s, t: s.writer, index: s.View().index}
}
