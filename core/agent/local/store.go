// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package local stores what a node must find again after a restart of its agent: its
// identity, its allocs with the state and handle of each task, and the plugin host's
// data about its plugins. It owns the keys and their encoding on badger, and combines
// the writes of many runners into few synced transactions. It makes no decisions. Only
// core/agent may import it.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Keys. An alloc's id never has a slash.
const (
	allocPrefix = "alloc/" // alloc/ID: Record
	taskPrefix  = "task/"  // task/ALLOC/NAME: TaskRecord
	groupPrefix = "group/" // group/ALLOC: group.State
	checkPrefix = "check/" // check/ALLOC: checks.State by the ids of checks
	kvPrefix    = "kv/"    // kv/KEY: bytes of other packages
	piecePrefix = "piece/" // see pieces.go
)

// Store is the node's state on disk.
type Store struct {
	db *durable.DB
	// commits counts what was acknowledged, so that it is noticed if some is missing.
	commits *durable.Commits
	space   *durable.Guard
	writes  chan write
	quit    chan struct{}
	done    sync.WaitGroup
	once    sync.Once
	// split are the pieces of the values that are split, by key. Only Open and the writer
	// use it.
	split map[string]pieces
	// made is the number of values that were split, ever.
	made uint64
}

var _ alloc.Store = (*Store)(nil)

type write struct {
	sets    map[string][]byte
	deletes []string
	done    chan error
}

// reserve is the disk space that is kept free: the size by which the memory maps of
// badger's files may still grow.
const reserve = 32 << 20

// Open opens or makes the store in a directory of its own.
func Open(dir string, logger hclog.Logger) (*Store, error) {
	space := durable.New(dir, reserve)
	db, err := durable.Open(dir, durable.ProfileDev, logger)
	if errdefs.IsFailedPrecondition(err) {
		return nil, fmt.Errorf("open the node's state (restore the directory from a backup): %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the node's state in %s: %w", dir, err)
	}
	commits, err := durable.CountCommits(db, dir)
	if err != nil {
		return nil, errors.Join(unusable(dir, err), db.Close())
	}
	s := &Store{db: db, commits: commits, space: space, writes: make(chan write, 256), quit: make(chan struct{}), split: map[string]pieces{}}
	if err := s.findPieces(); err != nil {
		return nil, errors.Join(err, db.Close(), commits.Close())
	}
	s.done.Go(s.writer)
	return s, nil
}

// Close waits for the writes under way and closes the store. It may be repeated.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.quit)
		s.done.Wait()
		err = errors.Join(s.db.Close(), s.commits.Close())
	})
	return err
}

// unusable is the error of a store whose commits could not be compared with what was
// acknowledged. A node that goes on without some would end tasks that it does not know.
func unusable(dir string, err error) error {
	var lost *durable.LostCommitsError
	if errors.As(err, &lost) {
		return errdefs.FailedPreconditionf("the node's state in %s is damaged: %w. Restore the directory from a backup, with the file %s; "+
			"to go on without what is missing, remove that file: tasks that the node no longer knows are then ended and started again", dir, err, lost.File)
	}
	return fmt.Errorf("open the node's state in %s: %w", dir, err)
}

// maxBatch limits the size of a combined write. One write may be larger: it becomes several
// transactions, of which a crash may leave only the first ones.
const (
	maxBatchWrites = 512
	maxBatchBytes  = durable.LargestValue
)

// writer commits all waiting writes in one synced transaction.
func (s *Store) writer() {
	for {
		select {
		case <-s.quit:
			return
		case w := <-s.writes:
			s.commit(s.gather(w))
		}
	}
}

func (s *Store) gather(first write) []write {
	batch, size := []write{first}, first.size()
	for len(batch) < maxBatchWrites && size < maxBatchBytes {
		select {
		case w := <-s.writes:
			batch = append(batch, w)
			size += w.size()
		default:
			return batch
		}
	}
	return batch
}

func (w write) size() int {
	n := 0
	for k, v := range w.sets {
		n += len(k) + len(v)
	}
	return n
}

func (s *Store) commit(batch []write) {
	err := s.space.Check()
	if err == nil {
		err = s.flush(batch)
	}
	if err != nil {
		err = fmt.Errorf("write the node's state: %w", err)
	}
	for _, w := range batch {
		w.done <- err
	}
}

func (s *Store) flush(batch []write) error {
	return s.commits.Write(func(wb *badger.WriteBatch) error {
		for _, w := range batch {
			for k, v := range w.sets {
				if err := s.set(wb, k, v); err != nil {
					return err
				}
			}
			for _, k := range w.deletes {
				if err := s.delete(wb, k); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// put hands a write to the writer and returns when it is durable.
func (s *Store) put(ctx context.Context, w write) error {
	w.done = make(chan error, 1)
	select {
	case s.writes <- w:
	case <-s.quit:
		return errdefs.Unavailablef("the node's state is closed")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-s.quit:
		return errdefs.Unavailablef("the node's state is closed")
	}
}

// PutAlloc keeps an alloc.
func (s *Store) PutAlloc(ctx context.Context, rec *alloc.Record) error {
	body, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode alloc %s: %w", rec.Alloc.ID, err)
	}
	return s.put(ctx, write{sets: map[string][]byte{allocPrefix + rec.Alloc.ID: body}})
}

// PutStates keeps the states of an alloc's group, tasks and checks, in one write.
func (s *Store) PutStates(ctx context.Context, allocID string, states alloc.States) error {
	w := write{sets: make(map[string][]byte, len(states.Tasks)+1)}
	if states.Group != nil {
		body, err := json.Marshal(states.Group)
		if err != nil {
			return fmt.Errorf("encode the group of alloc %s: %w", allocID, err)
		}
		w.sets[groupPrefix+allocID] = body
	}
	if states.Checks != nil {
		body, err := json.Marshal(states.Checks)
		if err != nil {
			return fmt.Errorf("encode the checks of alloc %s: %w", allocID, err)
		}
		w.sets[checkPrefix+allocID] = body
	}
	for name, rec := range states.Tasks {
		body, err := json.Marshal(rec)
		if err != nil {
			return fmt.Errorf("encode task %s of alloc %s: %w", name, allocID, err)
		}
		w.sets[taskPrefix+allocID+"/"+name] = body
	}
	return s.put(ctx, w)
}

// DeleteAlloc forgets an alloc with its group, tasks and checks.
func (s *Store) DeleteAlloc(ctx context.Context, allocID string) error {
	w := write{deletes: []string{allocPrefix + allocID, groupPrefix + allocID, checkPrefix + allocID}}
	err := s.scan(taskPrefix+allocID+"/", func(key string, _ []byte) error {
		w.deletes = append(w.deletes, key)
		return nil
	})
	if err != nil {
		return err
	}
	return s.put(ctx, w)
}

// Allocs reads everything that is kept of allocs.
func (s *Store) Allocs() ([]*alloc.Record, error) {
	byID := map[string]*alloc.Record{}
	var out []*alloc.Record
	err := s.scan(allocPrefix, func(key string, value []byte) error {
		rec := &alloc.Record{States: alloc.States{Tasks: map[string]alloc.TaskRecord{}}}
		if err := json.Unmarshal(value, rec); err != nil {
			return fmt.Errorf("decode %s: %w", key, err)
		}
		if rec.Alloc == nil || rec.Alloc.Job == nil {
			return errdefs.Internalf("%s has no job", key)
		}
		rec.Alloc.JobVersion = rec.Alloc.Job.Version
		byID[rec.Alloc.ID] = rec
		out = append(out, rec)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.ofAllocs(byID, groupPrefix, func(rec *alloc.Record) any { return &rec.Group })
	if err != nil {
		return nil, err
	}
	err = s.ofAllocs(byID, checkPrefix, func(rec *alloc.Record) any { return &rec.Checks })
	if err != nil {
		return nil, err
	}
	err = s.scan(taskPrefix, func(key string, value []byte) error {
		id, name, _ := strings.Cut(strings.TrimPrefix(key, taskPrefix), "/")
		rec := byID[id]
		if rec == nil {
			return nil // its alloc was deleted
		}
		var t alloc.TaskRecord
		if err := json.Unmarshal(value, &t); err != nil {
			return fmt.Errorf("decode %s: %w", key, err)
		}
		rec.Tasks[name] = t
		return nil
	})
	return out, err
}

// ofAllocs decodes the values that are stored once per alloc.
func (s *Store) ofAllocs(byID map[string]*alloc.Record, prefix string, into func(*alloc.Record) any) error {
	return s.scan(prefix, func(key string, value []byte) error {
		rec := byID[strings.TrimPrefix(key, prefix)]
		if rec == nil {
			return nil // its alloc was deleted
		}
		if err := json.Unmarshal(value, into(rec)); err != nil {
			return fmt.Errorf("decode %s: %w", key, err)
		}
		return nil
	})
}

func (s *Store) scan(prefix string, f func(key string, value []byte) error) error {
	return s.db.View(func(tx *badger.Txn) error {
		opts := badger.DefaultIteratorOptions
		opts.Prefix = []byte(prefix)
		it := tx.NewIterator(opts)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			value, err := read(tx, it.Item())
			if err != nil {
				return fmt.Errorf("read the node's state: %w", err)
			}
			if err := f(string(it.Item().KeyCopy(nil)), value); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get reads a value of another package (the plugin host, the node's identity).
func (s *Store) Get(_ context.Context, key string) ([]byte, error) {
	var out []byte
	err := s.db.View(func(tx *badger.Txn) error {
		item, err := tx.Get([]byte(kvPrefix + key))
		if err != nil {
			return err
		}
		out, err = read(tx, item)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, errdefs.NotFoundf("nothing is kept under %q", key)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q from the node's state: %w", key, err)
	}
	return out, nil
}

// Put stores a value of another package.
func (s *Store) Put(ctx context.Context, key string, value []byte) error {
	return s.put(ctx, write{sets: map[string][]byte{kvPrefix + key: value}})
}

// Delete removes a value of another package.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.put(ctx, write{deletes: []string{kvPrefix + key}})
}
