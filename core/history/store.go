// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package history

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// limits bound what is kept of one kind.
type limits struct {
	age   time.Duration
	bytes int64
}

// store is the open database.
type store struct {
	db    *durable.DB
	kinds map[kind]*segments
	// last is the newest log entry of which the store has what it removed. After a restart
	// older ones are applied again.
	last uint64
}

// lastKey is the key of store.last.
var lastKey = []byte{'l'}

// openStore opens the database in a directory. FailedPrecondition: it is damaged.
func openStore(dir string, logger hclog.Logger) (*store, error) {
	db, err := durable.Open(dir, durable.ProfileDev, logger)
	if err != nil {
		return nil, err
	}
	s := &store{db: db, kinds: map[kind]*segments{}}
	err = db.View(func(txn *badger.Txn) error {
		for _, of := range []kind{deployments, evaluations} {
			s.kinds[of] = readSegments(txn, of)
		}
		item, err := txn.Get(lastKey)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		return item.Value(func(value []byte) error {
			s.last, _ = binary.Uvarint(value)
			return nil
		})
	})
	if err != nil {
		_ = db.Close() // the first error is returned
		return nil, fmt.Errorf("read the history in %s: %w", dir, err)
	}
	return s, nil
}

// write stores records, which were removed from the state now, and drops what is too much
// or too old. It returns how many were not stored, and why the first of them was not.
func (s *store) write(records []record, now time.Time, l limits) (lost int, err error) {
	last := s.last
	failed := s.db.Write(func(batch *badger.WriteBatch) error {
		for _, r := range records {
			last = max(last, r.index)
			if r.index <= s.last && s.has(r) {
				continue
			}
			if failed := s.add(batch, r, now, l); failed != nil {
				lost++
				err = cmp.Or(err, failed)
			}
		}
		return batch.Set(lastKey, binary.AppendUvarint(nil, last))
	})
	if failed != nil {
		return len(records), fmt.Errorf("write to the history: %w", failed)
	}
	s.last = last
	if failed := s.prune(now, l); failed != nil && err == nil {
		err = failed
	}
	return lost, err
}

// add puts a record into a batch.
func (s *store) add(batch *badger.WriteBatch, r record, now time.Time, l limits) error {
	value, err := r.encode(now)
	if err != nil {
		return err
	}
	of := s.kinds[r.kind].current(now, l)
	key := s.kinds[r.kind].key(of, r.id)
	of.bytes += sizeOf(key, len(value))
	return batch.Set(key, value)
}

// has reports whether the object of a record is stored.
func (s *store) has(r record) bool {
	err := s.db.View(func(txn *badger.Txn) error {
		for _, part := range s.kinds[r.kind].list {
			if _, err := txn.Get(s.kinds[r.kind].key(part, r.id)); !errors.Is(err, badger.ErrKeyNotFound) {
				return err
			}
		}
		return badger.ErrKeyNotFound
	})
	return err == nil
}

// prune drops what is too much or too old.
func (s *store) prune(now time.Time, l limits) error {
	for _, of := range s.kinds {
		if err := of.drop(s.db, of.outdated(now, l)); err != nil {
			return err
		}
	}
	return nil
}

// found is one object of an answer.
type found[T any] struct {
	object *T
	at     time.Time
}

// scan returns the objects of a kind that a query selects and that are not older than
// since. An object that was stored twice is returned once. Values that cannot be read are
// counted.
func scan[T any](ctx context.Context, s *store, of kind, q model.PastQuery, since time.Time) (out []found[T], unread int, err error) {
	seen := map[string]int{}
	err = s.db.View(func(txn *badger.Txn) error {
		for _, part := range s.kinds[of].list {
			prefix := s.kinds[of].key(part, strings.ToLower(q.Prefix))
			opts := badger.DefaultIteratorOptions
			opts.Prefix = prefix
			it := txn.NewIterator(opts)
			for it.Rewind(); it.Valid(); it.Next() {
				if ctx.Err() != nil {
					it.Close()
					return context.Cause(ctx)
				}
				one, ok, err := read[T](it.Item(), q, since)
				switch {
				case err != nil:
					unread++
				case ok:
					id := string(it.Item().Key()[prefixBytes:])
					if i, twice := seen[id]; twice {
						out[i] = one
						continue
					}
					seen[id] = len(out)
					out = append(out, one)
				}
			}
			it.Close()
		}
		return nil
	})
	return out, unread, err
}

// read decodes an item if the query selects it.
func read[T any](item *badger.Item, q model.PastQuery, since time.Time) (out found[T], ok bool, err error) {
	err = item.Value(func(value []byte) error {
		s, readable := parse(value)
		switch {
		case !readable:
			return errdefs.Internalf("the value of %x cannot be read", item.Key())
		case s.at.Before(since), q.Namespace != "" && q.Namespace != s.namespace, q.JobID != "" && q.JobID != s.on:
			return nil
		}
		ok = true
		out = found[T]{object: new(T), at: s.at}
		return s.decode(out.object)
	})
	return out, ok && err == nil, err
}

// oldest returns the start of the oldest segment of a kind.
func (s *store) oldest(of kind) time.Time {
	if list := s.kinds[of].list; len(list) > 0 {
		return time.Unix(0, list[0].start).UTC()
	}
	return time.Time{}
}
