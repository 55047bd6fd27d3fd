// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package sleep owns how the core waits for time to pass: the one way to wait that ends with a
// context, and how long a timer may be trusted. Any package of the core may import it; it
// imports nothing of ours. A wait for something else, such as a change of state, is not its
// business.
package sleep

import (
	"context"
	"time"
)

// Longest is how long one waits for a time of the clock before looking at the clock again.
// Timers stand still while a machine sleeps, and do not follow a clock that is set.
const Longest = 30 * time.Second

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
