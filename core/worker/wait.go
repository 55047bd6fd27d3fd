// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
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
		for {
			changed := store.Watch(ctx, state.Key{Table: state.TableEvals}, state.Key{Table: state.TableAllocs},
				state.Key{Table: state.TableJobs}, state.Key{Table: state.TableNodes}, state.Key{Table: state.TableDeployments})
			if store.View().Index() >= index {
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return errdefs.DeadlineExceededf("state is at index %d and did not reach %d: this server lags behind the log, the evaluation is tried again", store.View().Index(), index)
			}
		}
	}
}
