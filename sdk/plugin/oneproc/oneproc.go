// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package oneproc makes a process run Go code on one thread at a time from its first
// instructions on. plugin.Serve does the same, but later: if two threads allocate memory before
// it, the process keeps about 0.4 MiB more for the rest of its life. The main package of a
// plugin imports oneproc only for this effect:
//
//	import _ "github.com/drover-project/drover/sdk/plugin/oneproc"
//
// It imports almost nothing, so that it is initialized before packages that allocate much.
// The environment variable GOMAXPROCS takes precedence.
package oneproc

import (
	"runtime"
	"syscall"
)

// The initialization of a variable is what a program does before the packages that it imports
// allocate.
var _ = limit()

func limit() (before int) {
	if _, set := syscall.Getenv("GOMAXPROCS"); set {
		return runtime.GOMAXPROCS(0)
	}
	return runtime.GOMAXPROCS(1)
}
