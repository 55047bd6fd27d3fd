// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package plugin

import (
	"os"
	"syscall"
)

// agentGoneSignals returns the signals that a process receives when its agent or
// terminal is gone.
func agentGoneSignals() []os.Signal {
	return []os.Signal{syscall.SIGPIPE, syscall.SIGHUP}
}
