// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package allocdir

import (
	"os"

	"github.com/drover-project/drover/sdk/errdefs"
)

// ListenSecrets is not possible on this system.
func (d Dir) ListenSecrets(string, string) (*os.File, error) {
	return nil, errdefs.Unimplementedf("sockets of tasks exist on Linux only")
}
