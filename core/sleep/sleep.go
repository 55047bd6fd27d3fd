// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package sleep owns the one way to wait for a while that ends with a context. Any package
// of the core may import it; it imports nothing of ours. A wait for something else, such as
// a change of state, is not its business.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It returns nil, or the error of ctx as soon as ctx ends.
func For(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
