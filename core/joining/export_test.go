// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package joining

import "context"

// RetryJoin joins the servers of the configuration.
func (j *Joiner) RetryJoin(ctx context.Context) { j.retryJoin(ctx) }

// Retry is retry.
func (j *Joiner) Retry(ctx context.Context, join func(context.Context) error) { j.retry(ctx, join) }

// ErrAlone is errAlone.
var ErrAlone = errAlone
