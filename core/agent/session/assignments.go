// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"sync"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// told passes the servers' knowledge of allocs to the buffer of updates.
func (s *Session) told(x *rpc.Assignments) {
	digests := make(map[string]uint64, len(x.Set))
	for _, y := range x.Set {
		digests[y.AllocID] = y.Reported
	}
	s.parts.Updates.Told(digests, x.Full)
}

// fetch gets allocs from the servers, apart from those that came with the assignments.
func (s *Session) fetch(ctx context.Context, x *rpc.Assignments, ids []string) ([]*model.Allocation, error) {
	fresh := make(map[string]*model.Allocation, len(x.Fresh))
	for _, a := range x.Fresh {
		fresh[a.ID] = a
	}
	var list []*model.Allocation
	var missing []string
	for _, id := range ids {
		if a := fresh[id]; a != nil {
			list = append(list, a)
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return list, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	fetched, err := s.cfg.Servers.FetchAllocs(ctx, s.Identity(), missing)
	return append(list, fetched...), err
}

// mailbox queues pushes until the node processes them, so that a push never waits for
// the node.
type mailbox struct {
	mu    sync.Mutex
	queue []*rpc.Assignments
	wake  chan struct{}
}

func (b *mailbox) put(x *rpc.Assignments) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.Full {
		b.queue = nil // a full set supersedes everything that is waiting
	}
	b.queue = append(b.queue, x)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return nil
}

func (b *mailbox) take() []*rpc.Assignments {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.queue
	b.queue = nil
	return out
}

// act acts on pushes. If that fails the session ends, because the next one begins with
// a full set.
func (s *Session) act(ctx context.Context, box *mailbox) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-box.wake:
		}
		for _, x := range box.take() {
			if err := s.hear(ctx, x); err != nil {
				return err
			}
			s.told(x)
			fetch := func(ctx context.Context, ids []string) ([]*model.Allocation, error) { return s.fetch(ctx, x, ids) }
			if err := s.parts.Allocs.Apply(ctx, x, s.cluster.doubts(), fetch); err != nil {
				return err
			}
			if x.Full || x.Plugins {
				s.parts.Releases()
			}
		}
	}
}
