// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package shelldriver

import (
	"context"

	"github.com/drover-project/drover/sdk/errdefs"
)

// PauseTask implements driver.Pauser. The cgroup of the host keeps the task paused while no
// process of the driver runs.
func (d *Driver) PauseTask(ctx context.Context, id string) error {
	t, err := d.running(id)
	if err != nil {
		return err
	}
	return t.Cgroup.Freeze(ctx)
}

// ResumeTask implements driver.Pauser.
func (d *Driver) ResumeTask(_ context.Context, id string) error {
	t, err := d.running(id)
	if err != nil {
		return err
	}
	return t.Cgroup.Thaw()
}

// running returns a task that has not ended.
func (d *Driver) running(id string) (*task, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	if _, ended := t.result(); ended {
		return nil, errdefs.FailedPreconditionf("task %q has ended", id)
	}
	return t, nil
}
