// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driver

import (
	"os/exec"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Start starts a command. There are no cgroups on this system.
func (*Cgroup) Start(cmd *exec.Cmd) error { return cmd.Start() }

// Update changes the limits of a cgroup. There are no cgroups on this system.
func (c *Cgroup) Update(Resources) error {
	if c == nil {
		return nil
	}
	return errdefs.Unimplementedf("there are no cgroups on this system")
}
