// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervised

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// pauseLimit is how long the processes of a task may take to stop. One that waits for a
// disk stops afterwards.
const pauseLimit = 10 * time.Second

// PauseTask implements driver.Pauser. The freezer of the task's cgroup keeps the task paused,
// so neither the supervisor nor the handle need know it.
func (t *Tasks) PauseTask(ctx context.Context, id string) error {
	g, err := t.freezer(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pauseLimit)
	defer cancel()
	return about("pause", id, g.Freeze(ctx))
}

// ResumeTask implements driver.Pauser.
func (t *Tasks) ResumeTask(ctx context.Context, id string) error {
	g, err := t.freezer(ctx, id)
	if err != nil {
		return err
	}
	return about("resume", id, g.Thaw())
}

func about(act, id string, err error) error {
	if err == nil {
		return nil
	}
	return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("%s task %q: %w", act, id, err))
}

// freezer returns the cgroup of a task that runs.
func (t *Tasks) freezer(ctx context.Context, id string) (*driver.Cgroup, error) {
	status, err := t.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	if status.Exit != nil || status.Ending {
		return nil, errdefs.FailedPreconditionf("pause or resume task %q: it has ended", id)
	}
	return freezerOf(status)
}

// freezerOf returns the cgroup whose freezer stops all processes of a task.
func freezerOf(s supervisor.Status) (*driver.Cgroup, error) {
	dir, err := supervisor.Freezer(s)
	if err != nil {
		return nil, err
	}
	return &driver.Cgroup{Dirs: map[string]string{"freezer": dir}}, nil
}

// Paused reports whether the task is paused, whoever has done it.
func Paused(s supervisor.Status) bool {
	g, err := freezerOf(s)
	return err == nil && g.Frozen()
}

// thaw lets a task that is about to be stopped continue, so that it can act on the signal.
func thaw(ctx context.Context, c *supervisor.Client, id string) error {
	status, err := c.Inspect(ctx, id)
	if err != nil || status.Exit != nil {
		return err
	}
	g, err := freezerOf(status)
	if err != nil || !g.Frozen() {
		return nil // a kill ends it all the same
	}
	return about("resume", id, g.Thaw())
}
