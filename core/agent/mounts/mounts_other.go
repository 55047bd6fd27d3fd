// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package mounts

// Detach does nothing: nothing is mounted for allocs on this platform.
func Detach(string) error { return nil }

// Private is false: other platforms have no mount namespaces.
func Private() bool { return false }
