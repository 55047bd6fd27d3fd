// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"

	"github.com/drover-project/drover/sdk/errdefs"
)

// anyCommit is the key of every commit, including a commit that changes no row.
var anyCommit = Key{}

// Reach returns once the newest View is at index or above it. If ctx ends before, the
// error is of class Unavailable.
func (s *Store) Reach(ctx context.Context, index uint64) error {
	if s.View().Index() >= index {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		changed := s.Watch(ctx, anyCommit)
		now := s.View().Index()
		if now >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errdefs.Unavailablef("the state of this server is at index %d and did not reach %d in time: it lags behind the log; retry: %w", now, index, ctx.Err())
		}
	}
}
