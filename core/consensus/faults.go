// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// A server refuses commands while less than its reserve is free, but it also writes what
// others decide: a leader's entries, terms and votes. On a full disk badger's memory maps
// end the process with a fault, so these have limits of their own, as parts of
// the reserve. Below the first, entries are refused as by a disk that reports to be full: the
// server stays, and gets them when there is room. Below the second it stops, because it must
// not go on without keeping its vote.
const (
	appendNeeds = 5. / 8  // a memtable that is flushed to a table, and a margin, as at the start
	voteNeeds   = 1. / 32 // a vote is a few bytes
)

// faults wraps raft's stores. Raft panics if it cannot read a committed entry or
// cannot store its term, and continues after a failed write, after which the contents
// of the disk are unknown. faults instead reports such an error and blocks the caller
// forever; the server is closed meanwhile.
type faults struct {
	raft.LogStore
	stable  raft.StableStore
	fatal   func(error)
	room    func(needed uint64) error // why the disk has less than that; nil has no limit
	reserve uint64
	running atomic.Bool   // raft has started; before that, errors are returned
	forever chan struct{} // closed only by tests
}

var (
	_ raft.LogStore    = (*faults)(nil)
	_ raft.StableStore = (*faults)(nil)
)

// broken reports an I/O error. Once raft is running it does not return.
func (f *faults) broken(what string, err error) error {
	if errdefs.IsResourceExhausted(err) {
		err = errdefs.ResourceExhaustedf("%s: there is no room for it, so this server stops; start it again when there is: %w", what, err)
	} else {
		err = errdefs.Internalf("%s: the disk of the raft log has failed, so this server stops; see the kernel's log, and start it again when the disk is well: %w", what, err)
	}
	if f.running.Load() {
		f.fatal(err)
		<-f.forever
	}
	return err
}

// GetLog reads an entry.
func (f *faults) GetLog(index uint64, log *raft.Log) error {
	err := f.LogStore.GetLog(index, log)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	return f.broken(fmt.Sprintf("read entry %d", index), err)
}

// StoreLog writes an entry.
func (f *faults) StoreLog(log *raft.Log) error { return f.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes entries. A full disk is not a fault, because the whole write was
// rejected.
func (f *faults) StoreLogs(logs []*raft.Log) error {
	if err := f.check(appendNeeds); err != nil {
		return err
	}
	err := f.LogStore.StoreLogs(logs)
	if err == nil || errors.Is(err, syscall.ENOSPC) || errdefs.IsResourceExhausted(err) {
		return err
	}
	return f.broken("write to the raft log", err)
}

// check returns why less than a part of the reserve is free.
func (f *faults) check(part float64) error {
	if f.room == nil {
		return nil
	}
	return f.room(uint64(float64(f.reserve) * part))
}

// Set stores a value.
func (f *faults) Set(key, value []byte) error {
	if err := f.check(voteNeeds); err != nil {
		return f.broken("keep what this server has voted for", err)
	}
	if err := f.stable.Set(key, value); err != nil {
		return f.broken("keep what this server has voted for", err)
	}
	return nil
}

// SetUint64 stores a number.
func (f *faults) SetUint64(key []byte, value uint64) error {
	if err := f.check(voteNeeds); err != nil {
		return f.broken("keep the term of this server", err)
	}
	if err := f.stable.SetUint64(key, value); err != nil {
		return f.broken("keep the term of this server", err)
	}
	return nil
}

// Get reads a value.
func (f *faults) Get(key []byte) ([]byte, error) { return f.stable.Get(key) }

// GetUint64 reads a number.
func (f *faults) GetUint64(key []byte) (uint64, error) { return f.stable.GetUint64(key) }

// gapless rejects snapshots that end before the log begins: the entries in between
// would be missing silently, or make raft panic.
type gapless struct {
	raft.SnapshotStore
	first uint64 // first index of the log when it was opened
}

// newGapless checks that there is a snapshot if the log does not begin with its first
// entry.
func newGapless(snapshots raft.SnapshotStore, log raft.LogStore, dir string) (*gapless, error) {
	first, err := log.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("read where the raft log begins: %w", err)
	}
	list, err := snapshots.List()
	if err != nil {
		return nil, fmt.Errorf("list the snapshots in %s: %w", dir, err)
	}
	if first > 1 && len(list) == 0 {
		return nil, errdefs.FailedPreconditionf("the raft log begins at index %d, and no snapshot in %s/snapshots contains the entries before it: they were removed or are damaged. "+
			"Put them back from a backup, or start with an empty data directory and restore a snapshot", first, dir)
	}
	return &gapless{SnapshotStore: snapshots, first: first}, nil
}

// Open opens a snapshot.
func (g *gapless) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := g.SnapshotStore.Open(id)
	if err != nil || meta.Index+1 >= g.first {
		return meta, r, err
	}
	return nil, nil, errors.Join(errdefs.FailedPreconditionf("the snapshot %s ends at index %d and the raft log begins at %d: the entries in between are missing", id, meta.Index, g.first), r.Close())
}
