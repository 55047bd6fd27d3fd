// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package allocdir

import "github.com/drover-project/drover/sdk/errdefs"

// MountSecrets puts a task's secrets folder into memory; it works on Linux.
func (d Dir) MountSecrets(string, int) (bool, error) { return false, ProbeSecrets(d.Path) }

// ProbeSecrets returns an error: memory file systems are supported only on Linux.
func ProbeSecrets(string) error {
	return errdefs.Unimplementedf("secrets cannot be kept in memory on this operating system; they are in a folder on disk")
}
