// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"

	"github.com/moby/moby/client"

	"github.com/drover-project/drover/sdk/errdefs"
)

// PauseTask implements driver.Pauser. The daemon keeps the container paused.
func (d *Driver) PauseTask(ctx context.Context, id string) error { return d.hold(ctx, id, true) }

// ResumeTask implements driver.Pauser.
func (d *Driver) ResumeTask(ctx context.Context, id string) error { return d.hold(ctx, id, false) }

// hold pauses or resumes the container of a task, unless it already is in that state.
func (d *Driver) hold(ctx context.Context, id string, pause bool) error {
	t, err := d.of(id)
	if err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return wrapTask(id, err)
	}
	if t.result() != nil {
		return errdefs.FailedPreconditionf("pause or resume task %q: it has ended", id)
	}
	if err := t.d.hold(ctx, t.state.Container, pause); err != nil {
		return wrapTask(id, err)
	}
	return nil
}

// hold pauses or resumes a container. The daemon refuses it for a container that already is
// in that state, or does not run.
func (d *daemon) hold(ctx context.Context, id string, pause bool) error {
	c, err := d.inspect(ctx, id)
	if err != nil || c.State.Paused == pause {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	act := "pause"
	if pause {
		_, err = d.api.Load().ContainerPause(limited, id, client.ContainerPauseOptions{})
	} else {
		act = "resume"
		_, err = d.api.Load().ContainerUnpause(limited, id, client.ContainerUnpauseOptions{})
	}
	if err == nil {
		return nil
	}
	if now, gone := d.inspect(ctx, id); gone == nil && now.State.Paused == pause {
		return nil // somebody else was faster
	}
	return d.failed(ctx, err, "%s container %s", act, short(id))
}
