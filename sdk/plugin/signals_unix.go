// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package plugin

import (
	"os"
	"syscall"
)

// brokenPipeSignals are those that a process gets when its agent or terminal is gone.
func brokenPipeSignals() []os.Signal {
	return []os.Signal{syscall.SIGPIPE, syscall.SIGHUP}
}
