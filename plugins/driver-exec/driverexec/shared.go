// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervisor"
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

// eventCheck is how often tasks are looked at for something to tell their users.
const eventCheck = 5 * time.Second

// TaskEvents implements driver.Driver: what these drivers have to tell is that
// output of a task cannot be kept.
func (d shared) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	go func() {
		defer close(out)
		tick := time.NewTicker(eventCheck)
		defer tick.Stop()
		told := map[string]uint64{} // by task, how much was dropped
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			now := map[string]uint64{}
			for _, s := range d.tasks.running(ctx) {
				now[s.ID] = s.DroppedLogBytes
				if s.DroppedLogBytes == told[s.ID] {
					continue
				}
				select {
				case out <- logEvent(s, s.DroppedLogBytes-told[s.ID]):
				case <-ctx.Done():
					return
				}
			}
			told = now
		}
	}()
	return out, nil
}

func logEvent(s supervisor.Status, dropped uint64) driver.TaskEvent {
	return driver.TaskEvent{
		TaskID: s.ID, Time: time.Now(),
		Message:     fmt.Sprintf("%d bytes of output were dropped: %s; make room for the alloc's log files", dropped, s.LogError),
		Annotations: map[string]string{"dropped_log_bytes": strconv.FormatUint(s.DroppedLogBytes, 10)},
	}
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
