// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package joining

import "context"

// RetryJoin joins the servers of the configuration.
func (j *Joiner) RetryJoin(ctx context.Context) { j.retryJoin(ctx) }
