// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !windows

package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-project/drover/core/api"
)

// watchSize sends the size of the terminal now and after each change, until ctx
// ends.
func watchSize(ctx context.Context, out io.Writer) <-chan api.TermSize {
	sizes := make(chan api.TermSize, 1)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	changed <- syscall.SIGWINCH // for the initial size
	go func() {
		defer signal.Stop(changed)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			size, ok := sizeOf(out)
			if !ok {
				continue
			}
			select {
			case sizes <- size:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sizes
}
