// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driver

import (
	"context"
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

// Freeze stops the processes of a cgroup. There are no cgroups on this system.
func (*Cgroup) Freeze(context.Context) error {
	return errdefs.FailedPreconditionf("there are no cgroups on this system, so no task can be paused")
}

// Thaw lets the processes of a cgroup continue. There are no cgroups on this system.
func (*Cgroup) Thaw() error { return nil }

// Frozen reports whether the processes of a cgroup are stopped. There are no cgroups on
// this system.
func (*Cgroup) Frozen() bool { return false }
