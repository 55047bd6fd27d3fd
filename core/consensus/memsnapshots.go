// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// memorySnapshots keeps the newest complete snapshot. Raft's own store in memory forgets
// the snapshot as soon as the next one begins, and keeps incomplete ones.
type memorySnapshots struct {
	mu     sync.Mutex
	newest *memorySnapshot // nil if there is none
}

// memorySnapshot is a snapshot. While it is being written, it is also its own sink.
type memorySnapshot struct {
	store *memorySnapshots
	meta  raft.SnapshotMeta
	data  bytes.Buffer
}

// Create implements raft.SnapshotStore.
func (s *memorySnapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, since uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &memorySnapshot{store: s, meta: raft.SnapshotMeta{
		Version: version, ID: fmt.Sprintf("%d-%d", term, index), Index: index, Term: term, Configuration: members, ConfigurationIndex: since,
	}}, nil
}

// List implements raft.SnapshotStore.
func (s *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		return nil, nil
	}
	meta := s.newest.meta
	return []*raft.SnapshotMeta{&meta}, nil
}

// Open implements raft.SnapshotStore.
func (s *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil || s.newest.meta.ID != id {
		return nil, nil, fmt.Errorf("there is no snapshot %s in memory any more", id)
	}
	meta := s.newest.meta
	return &meta, io.NopCloser(bytes.NewReader(s.newest.data.Bytes())), nil
}

// clone returns a store with the same snapshot.
func (s *memorySnapshots) clone() *memorySnapshots {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &memorySnapshots{newest: s.newest} // a complete one never changes
}

func (m *memorySnapshot) Write(p []byte) (int, error) { return m.data.Write(p) }
func (m *memorySnapshot) ID() string                  { return m.meta.ID }
func (m *memorySnapshot) Cancel() error               { return nil }

// Close completes the snapshot.
func (m *memorySnapshot) Close() error {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	m.meta.Size = int64(m.data.Len())
	m.store.newest = m
	return nil
}
