// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/internal/stream"
)

// Every is what most drivers answer to TaskStats with: it calls sample at once and
// each interval, keeps nothing for a reader that is slow, and ends with ctx.
func Every(ctx context.Context, interval time.Duration, sample func(context.Context) []TaskStats) (<-chan []TaskStats, error) {
	return stream.Every(ctx, interval, sample)
}
