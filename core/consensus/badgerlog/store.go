// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Config says where and how to open a Store.
type Config struct {
	// Dir is the directory of the database; it is made if it is missing.
	Dir string
	// Profile selects the memory that the store may use.
	Profile Profile
	// Logger receives badger's errors; nil drops them.
	Logger hclog.Logger
	// Damaged opens a store even if it has lost commits, for diagnosis.
	Damaged bool
}

// Store is a raft.LogStore and a raft.StableStore. It is safe for concurrent use.
type Store struct {
	db *durable.DB

	// writes is locked for reading during every write, and for writing while prefixes
	// are dropped, because badger then rejects writes.
	writes sync.RWMutex

	// commits counts what was acknowledged, so that it is noticed if some is missing.
	commits *durable.Commits

	// mu protects the fields below. It is never held during a call of badger that may
	// wait for the disk.
	mu sync.RWMutex
	// meta is the value of metaKey.
	meta meta
	// first and last are the lowest and the highest index stored; both are 0
	// while the log is empty.
	first, last uint64
	// oldest is the lowest segment that may still have keys of this epoch.
	oldest uint64
}

var (
	_ raft.LogStore    = (*Store)(nil)
	_ raft.StableStore = (*Store)(nil)
)

// Open opens the store in cfg.Dir and completes what a crash interrupted.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, errdefs.InvalidArgumentf("the raft log needs a directory; set data_dir")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the raft log: %w", err)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = hclog.NewNullLogger()
	}
	open := durable.Open
	if cfg.Damaged {
		open = durable.OpenDamaged
	}
	db, err := open(cfg.Dir, cfg.Profile, logger)
	if errdefs.IsFailedPrecondition(err) {
		return nil, fmt.Errorf("open the raft log (restore the data directory from a backup, or start with an empty one and restore a snapshot): %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the raft log in %s: %w", cfg.Dir, err)
	}
	commits, err := countCommits(db, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the raft log in %s: %w", cfg.Dir, err), db.Close())
	}
	s := &Store{db: db, commits: commits}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func countCommits(db *durable.DB, cfg Config) (*durable.Commits, error) {
	if cfg.Damaged {
		return durable.UncheckedCommits(db)
	}
	commits, err := durable.CountCommits(db, cfg.Dir)
	var lost *durable.LostCommitsError
	if errors.As(err, &lost) {
		return nil, errdefs.Internalf("%w. Restore the data directory from a backup, or start with an empty one and restore a snapshot; to go on without what is missing, remove %s", err, lost.File)
	}
	return commits, err
}

// Close flushes and closes the database.
func (s *Store) Close() error {
	s.writes.Lock()
	defer s.writes.Unlock()
	if err := errors.Join(s.db.Close(), s.commits.Close()); err != nil {
		return fmt.Errorf("close the raft log: %w", err)
	}
	return nil
}

// load reads the meta record and the bounds of the log, and drops leftovers of a
// crash.
func (s *Store) load() error {
	m, err := s.readMeta()
	if err != nil {
		return err
	}
	s.meta = m
	if err := s.dropOlderEpochs(); err != nil {
		return err
	}
	lowest, found, err := s.seekFrom(m.Epoch, 0)
	if err != nil {
		return err
	}
	if !found {
		return nil
	}
	s.oldest = lowest >> segmentBits
	if s.first, found, err = s.seekFrom(m.Epoch, m.Floor); err != nil {
		return err
	}
	if found {
		if s.last, err = s.seekLast(m.Epoch); err != nil {
			return err
		}
	} else {
		s.first = 0
	}
	return s.dropBelow(m.Floor)
}

// FirstIndex returns the lowest index stored, 0 if there is none.
func (s *Store) FirstIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first, nil
}

// LastIndex returns the highest index stored, 0 if there is none.
func (s *Store) LastIndex() (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// GetLog reads one entry, or returns raft.ErrLogNotFound.
func (s *Store) GetLog(index uint64, log *raft.Log) error {
	s.mu.RLock()
	epoch, inside := s.meta.Epoch, s.first != 0 && index >= s.first && index <= s.last
	s.mu.RUnlock()
	if !inside {
		return raft.ErrLogNotFound
	}
	value, err := s.readEntry(epoch, index)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return raft.ErrLogNotFound
	}
	if err != nil {
		return fmt.Errorf("read raft log entry %d: %w", index, err)
	}
	return decodeEntry(index, value, log)
}

// StoreLog stores one entry: see StoreLogs.
func (s *Store) StoreLog(log *raft.Log) error {
	return s.StoreLogs([]*raft.Log{log})
}

// StoreLogs stores the entries and returns once they are on disk.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	s.writes.RLock()
	defer s.writes.RUnlock()

	s.mu.RLock()
	epoch, floor := s.meta.Epoch, s.meta.Floor
	s.mu.RUnlock()
	if err := s.writeEntries(epoch, floor, logs); err != nil {
		return fmt.Errorf("store raft log entries %d to %d: %w", logs[0].Index, logs[len(logs)-1].Index, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = logs[0].Index
		s.oldest = s.first >> segmentBits
	}
	for _, log := range logs {
		s.first = min(s.first, log.Index)
		s.last = max(s.last, log.Index)
		s.oldest = min(s.oldest, log.Index>>segmentBits)
	}
	return nil
}

// DeleteRange deletes the entries from lo to hi, both included.
func (s *Store) DeleteRange(lo, hi uint64) error {
	s.mu.RLock()
	first, last := s.first, s.last
	s.mu.RUnlock()
	if first == 0 || lo > hi || hi < first || lo > last {
		return nil
	}
	var err error
	switch {
	case lo <= first && hi >= last:
		err = s.deleteAll()
	case lo <= first:
		err = s.deleteFront(hi + 1)
	default:
		err = s.deleteBack(lo, min(hi, last))
	}
	if err != nil {
		return fmt.Errorf("delete raft log entries %d to %d: %w", lo, hi, err)
	}
	return nil
}
