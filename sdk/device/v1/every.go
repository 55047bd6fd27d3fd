// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/internal/stream"
)

// Every is what most plugins answer to Stats with: it calls measure at once and
// each interval, keeps nothing for a reader that is slow, and ends with ctx.
func Every(ctx context.Context, interval time.Duration, measure func(context.Context) []GroupStats) (<-chan []GroupStats, error) {
	return stream.Every(ctx, interval, measure)
}
