// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"context"

	"github.com/drover-project/drover/sdk/errdefs"
)

// statusPaused is QEMU's status of a machine that was paused by a command.
const statusPaused = "paused"

// statusWritten is QEMU's status of a machine after a checkpoint, which is also paused.
const statusWritten = "postmigrate"

// PauseTask implements driver.Pauser. It stops the processors of the machine, and QEMU
// itself runs on: its monitor answers, and it keeps the disks.
func (d *Driver) PauseTask(ctx context.Context, id string) error { return d.command(ctx, id, "stop") }

// ResumeTask implements driver.Pauser.
func (d *Driver) ResumeTask(ctx context.Context, id string) error { return d.command(ctx, id, "cont") }

// command has the monitor of a machine carry out a command that has no effect if it is
// repeated.
func (d *Driver) command(ctx context.Context, id, name string) error {
	l, err := d.running(ctx, id, "pause or resume")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorLimit)
	defer cancel()
	if err := tell(ctx, l, name); err != nil {
		return errdefs.Unavailablef("pause or resume task %q: %w", id, err)
	}
	return nil
}

// tell sends a command to the monitor of a machine.
func tell(ctx context.Context, l *launch, name string) error {
	m, err := openQMP(ctx, l)
	if err != nil {
		return err
	}
	defer m.close()
	return m.command(name, nil, nil)
}
