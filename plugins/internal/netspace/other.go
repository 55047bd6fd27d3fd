// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package netspace

import "github.com/drover-project/drover/sdk/errdefs"

// Probe says why this process cannot make namespaces.
func Probe() error {
	return errdefs.FailedPreconditionf("networks of allocs are made on Linux only; use mode \"host\"")
}

// Is reports whether there is a namespace at the path.
func Is(string) bool { return false }

// Make makes a namespace.
func Make(string) error { return Probe() }

// Remove removes what Make has made.
func Remove(string) error { return nil }

// LoopbackUp brings the loopback of a namespace up.
func LoopbackUp(string) error { return Probe() }
