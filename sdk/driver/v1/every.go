// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/internal/stream"
)

// Every is an implementation of TaskStats for most drivers: it calls sample once and
// then at every interval, drops samples that a slow reader does not take, and closes
// the channel when ctx ends.
func Every(ctx context.Context, interval time.Duration, sample func(context.Context) []TaskStats) (<-chan []TaskStats, error) {
	return stream.Every(ctx, interval, sample)
}
