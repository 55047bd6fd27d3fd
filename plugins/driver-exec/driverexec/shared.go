// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// shared is the part of the contract that is the same for all drivers of this
// plugin.
type shared struct{ tasks *tasks }

// RecoverTask implements driver.Driver.
func (d shared) RecoverTask(ctx context.Context, handle *driver.Handle) error {
	return d.tasks.recover(ctx, handle)
}

// WaitTask implements driver.Driver.
func (d shared) WaitTask(ctx context.Context, id string) (driver.ExitResult, error) {
	return d.tasks.wait(ctx, id)
}

// StopTask implements driver.Driver.
func (d shared) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	return d.tasks.stop(ctx, id, timeout, signal)
}

// DestroyTask implements driver.Driver.
func (d shared) DestroyTask(ctx context.Context, id string, force bool) error {
	return d.tasks.destroy(ctx, id, force)
}

// InspectTask implements driver.Driver.
func (d shared) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	return d.tasks.inspect(ctx, id)
}

// TaskStats implements driver.Driver.
func (d shared) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
	return d.tasks.stats(ctx, interval)
}

// SignalTask implements driver.Driver.
func (d shared) SignalTask(ctx context.Context, id string, signal string) error {
	return d.tasks.signal(ctx, id, signal)
}

// ExecTask implements driver.Driver.
func (d shared) ExecTask(ctx context.Context, id string, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	return d.tasks.exec(ctx, id, opts, stream)
}

// TaskEvents implements driver.Driver: these drivers have nothing to tell.
func (d shared) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	context.AfterFunc(ctx, func() { close(out) })
	return out, nil
}

// Close ends the connection to the supervisor; tasks go on.
func (d shared) Close() error { return d.tasks.close() }

// handleState is what a handle holds.
type handleState struct {
	Dir string `json:"dir"` // of the supervisor
	PID int    `json:"pid"` // for people
}

const handleVersion = 1

func newHandle(id string, s handleState) (*driver.Handle, error) {
	state, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the handle of task %q: %w", id, err)
	}
	return &driver.Handle{TaskID: id, Version: handleVersion, State: state}, nil
}
