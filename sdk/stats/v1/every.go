// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/internal/stream"
)

// Every is an implementation of Collect for most collectors: it calls measure once and
// then at every interval, drops samples that a slow reader does not take, and closes
// the channel when ctx ends.
func Every(ctx context.Context, interval time.Duration, measure func(context.Context) Sample) (<-chan Sample, error) {
	return stream.Every(ctx, interval, measure)
}
