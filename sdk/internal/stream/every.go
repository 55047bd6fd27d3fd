// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Every sends the result of measure once and then at every interval, and closes the
// channel when ctx ends. It does not queue: a value that nobody has taken when the
// next one is due is replaced by a new measurement.
func Every[T any](ctx context.Context, interval time.Duration, measure func(context.Context) T) (<-chan T, error) {
	if interval <= 0 {
		return nil, errdefs.InvalidArgumentf("an interval of %s cannot be kept; it must be above zero", interval)
	}
	out := make(chan T)
	go func() {
		defer close(out)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			v := measure(ctx)
			select {
			case out <- v:
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			case <-tick.C: // nobody took the value, and the next one is due
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
