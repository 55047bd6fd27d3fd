// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"fmt"
	"sync"
)

// ended waits until the calls to an old process have ended, each of which is bounded. If
// ctx ends first, the error names the calls that have not ended.
func ended(ctx context.Context, calls *sync.WaitGroup, still string) error {
	done := make(chan struct{})
	go func() { calls.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", still, ctx.Err())
	}
}
