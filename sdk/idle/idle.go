// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package idle gives back memory that a process has used and does not need while it is
// idle: garbage, and the pages of its own program that it ran through, most of them while it
// started. It does not decide when a process is idle. sdk/plugin and cmd/drover/daemon
// import it.
package idle

import "runtime/debug"

// Release collects garbage, and returns to the system what the process holds and can get
// again: free memory of the heap, and the pages of its program. A page of the program that
// is used again is mapped again, as a rule from the system's memory and not from the disk.
func Release() {
	debug.FreeOSMemory()
	releaseProgram()
}
