// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/plugins/internal/cgroup"
	"github.com/drover-project/drover/plugins/internal/supervised"
	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// UpdateTask implements driver.Updater. The task's cgroup stores the resources, so neither
// the supervisor nor the handle needs them.
func (d isolated) UpdateTask(ctx context.Context, id string, r driver.Resources) error {
	status, err := running(ctx, d.Tasks, id)
	if err != nil {
		return err
	}
	groups, err := cgroup.FindCgroups()
	if err != nil {
		return err
	}
	group := groups.Open(status.Group)
	err = (&driver.Cgroup{Dirs: group.Limited()}).Update(r)
	if err == nil && len(r.Cores) == 0 {
		err = group.Share(r.SharedCores)
	}
	return notChanged(id, err)
}

// UpdateTask implements driver.Updater. The driver limits neither the memory nor the share of
// the processor, so only the cores that the task shares with others may have to change. A task
// in cgroups of the operator's choice stays as it is.
func (d *RawExec) UpdateTask(ctx context.Context, id string, r driver.Resources) error {
	status, err := running(ctx, d.Tasks, id)
	if err != nil || status.Cgroup == "" || len(r.Cores) > 0 || len(r.SharedCores) == 0 {
		return err
	}
	return notChanged(id, cgroup.Move(status.Cgroup, r.SharedCores))
}

func notChanged(id string, err error) error {
	if err == nil {
		return nil
	}
	return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("change the resources of task %q: %w", id, err))
}

// running returns the status of a task whose resources are to change.
func running(ctx context.Context, tasks *supervised.Tasks, id string) (supervisor.Status, error) {
	status, err := tasks.Status(ctx, id)
	if err == nil && (status.Exit != nil || status.Ending) {
		err = errdefs.FailedPreconditionf("change the resources of task %q: it has ended", id)
	}
	return status, err
}
