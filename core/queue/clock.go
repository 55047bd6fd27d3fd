// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import "time"

// Clock is the source of time of a Broker.
type Clock interface {
	Now() time.Time
	// After returns a channel that receives the time once d has passed.
	After(d time.Duration) <-chan time.Time
}

// WallClock is the system clock.
type WallClock struct{}

// Now returns the current time.
func (WallClock) Now() time.Time { return time.Now() }

// After waits for d to pass.
func (WallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
