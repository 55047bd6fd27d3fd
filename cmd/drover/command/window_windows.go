// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"io"

	"github.com/drover-project/drover/core/api"
)

// watchSize sends the size of the terminal once, because Windows has no signal for a
// change.
func watchSize(_ context.Context, out io.Writer) <-chan api.TermSize {
	sizes := make(chan api.TermSize, 1)
	if size, ok := sizeOf(out); ok {
		sizes <- size
	}
	return sizes
}
