// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/state"
)

// indexWait limits how long a worker waits for the state to reach an index.
const indexWait = 5 * time.Second

// WaitForIndex returns a WaitFor for a Config: it returns once the store's newest View
// has reached index. A leader applies an entry before the proposal returns, so it
// seldom waits.
func WaitForIndex(store *state.Store) func(ctx context.Context, index uint64) error {
	return func(ctx context.Context, index uint64) error {
		ctx, cancel := context.WithTimeout(ctx, indexWait)
		defer cancel()
		return store.Reach(ctx, index)
	}
}
