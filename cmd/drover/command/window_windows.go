// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"io"

	"github.com/drover-project/drover/core/api"
)

// watchSize tells the size of the terminal once: Windows sends no signal when it changes.
func watchSize(_ context.Context, out io.Writer) <-chan api.TermSize {
	sizes := make(chan api.TermSize, 1)
	if size, ok := sizeOf(out); ok {
		sizes <- size
	}
	return sizes
}
