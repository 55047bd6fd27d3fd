// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"slices"
	"sync"
)

// Batch holds the changes of one or more commits, in order. Resync means that changes
// were lost (the reader was too slow, or a snapshot was restored): the reader must
// then read a new View, whose index is at least Index.
type Batch struct {
	Index   uint64
	Changes []Change
	Resync  bool
}

// Feed is the stream of changes of some tables, for one reader.
type Feed struct {
	s      *Store
	tables []string
	limit  int
	since  uint64

	mu    sync.Mutex
	ready chan struct{} // holds a token while batch is not empty
	batch Batch
}

// feeds are the readers of changes.
type feeds struct {
	mu   sync.Mutex
	list []*Feed
}

// FeedLimit is the number of changes that a feed buffers before its reader must
// resync.
const FeedLimit = 64 << 10

// Subscribe starts a feed of the changes of the tables, or of all tables if none are
// named. Every change that is committed after the call is in the feed.
func (s *Store) Subscribe(tables ...string) *Feed {
	f := &Feed{s: s, tables: tables, limit: FeedLimit, ready: make(chan struct{}, 1)}
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	s.feeds.list = append(s.feeds.list, f)
	f.since = s.View().Index()
	return f
}

// Since returns the index after which the feed has every change.
func (f *Feed) Since() uint64 { return f.since }

// Next waits for changes and returns all that have arrived.
func (f *Feed) Next(ctx context.Context) (Batch, error) {
	for {
		select {
		case <-f.ready:
			// A token may be left over from a batch that was already taken together
			// with its predecessor.
			if b := f.take(); b.Resync || len(b.Changes) > 0 {
				return b, nil
			}
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
}

func (f *Feed) take() Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.batch
	f.batch = Batch{}
	return b
}

// Close ends the feed.
func (f *Feed) Close() {
	fs := &f.s.feeds
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = slices.DeleteFunc(fs.list, func(other *Feed) bool { return other == f })
}

// send adds committed changes to every feed.
func (fs *feeds) send(changes []Change, index uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		f.push(changes, index)
	}
}

// resync tells every feed that changes were lost.
func (fs *feeds) resync(index uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		f.mu.Lock()
		f.batch = Batch{Index: index, Resync: true}
		f.signal()
		f.mu.Unlock()
	}
}

func (f *Feed) push(changes []Change, index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.batch.Resync { // the reader will read a new View, so more changes would only hold old rows in memory
		f.batch.Index = index
		return
	}
	before := len(f.batch.Changes)
	for i := range changes {
		if len(f.tables) == 0 || slices.Contains(f.tables, changes[i].Table) {
			f.batch.Changes = append(f.batch.Changes, changes[i])
		}
	}
	switch {
	case len(f.batch.Changes) == before:
		return // no changes for this reader
	case len(f.batch.Changes) > f.limit:
		f.batch = Batch{Resync: true}
	}
	f.batch.Index = index
	f.signal()
}

func (f *Feed) signal() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}
