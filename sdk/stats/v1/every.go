// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Every is what most collectors answer to Collect with: it calls measure at once
// and each interval, keeps nothing for a reader that is slow, and ends with ctx.
func Every(ctx context.Context, interval time.Duration, measure func(context.Context) Sample) (<-chan Sample, error) {
	if interval <= 0 {
		return nil, errdefs.InvalidArgumentf("an interval of %s cannot be kept; it must be above zero", interval)
	}
	out := make(chan Sample)
	go func() {
		defer close(out)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			s := measure(ctx)
			select {
			case out <- s:
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
