// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package procfs

import "github.com/drover-project/drover/sdk/errdefs"

// Read returns an error of class Unimplemented.
func Read(int) (Process, error) {
	return Process{}, errdefs.Unimplementedf("the processes of this system cannot be read")
}

// PIDs returns none.
func PIDs() []int { return nil }
