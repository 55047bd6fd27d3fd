// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpdateTask implements driver.Updater. The task's cgroup stores the resources, so neither
// the supervisor nor the handle needs them.
func (d isolated) UpdateTask(ctx context.Context, id string, r driver.Resources) error {
	status, err := d.Status(ctx, id)
	if err != nil {
		return err
	}
	if status.Exit != nil || status.Ending {
		return errdefs.FailedPreconditionf("change the resources of task %q: it has ended", id)
	}
	groups, err := cgroup.FindCgroups()
	if err != nil {
		return err
	}
	group := &driver.Cgroup{Dirs: groups.Open(status.Group).Limited()}
	if err := group.Update(r); err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("change the resources of task %q: %w", id, err))
	}
	return nil
}
