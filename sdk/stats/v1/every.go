// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/internal/stream"
)

// Every is what most collectors answer to Collect with: it calls measure at once
// and each interval, keeps nothing for a reader that is slow, and ends with ctx.
func Every(ctx context.Context, interval time.Duration, measure func(context.Context) Sample) (<-chan Sample, error) {
	return stream.Every(ctx, interval, measure)
}
