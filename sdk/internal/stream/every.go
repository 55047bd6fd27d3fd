// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Every delivers what measure returns, at once and each interval, and closes the
// channel when ctx ends. It keeps nothing for a reader that is slow: what nobody
// has taken when the next is due is measured anew.
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
			case <-tick.C: // nobody took it, and the next is due
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
