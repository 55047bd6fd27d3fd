// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// undoLimit limits the time for undoing a failed start. The caller also destroys the
// task when the driver answers again.
const undoLimit = 10 * time.Second

// It is unknown when a driver reacts to the cancellation of a call. These are the delays
// after an interrupted start at which the host checks whether the driver has started the
// task meanwhile.
var looksAfterInterruption = []time.Duration{0, 300 * time.Millisecond, time.Second}

// listed reports whether the driver says which tasks it has.
func (p *Proxy) listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lists
}

// ErrInterrupted is wrapped by an error of StartTask if the plugin's process ended
// during the start. The task may not be at fault and may exist: before anything else,
// the next process must be asked for it or told to destroy it.
var ErrInterrupted = errors.New("the plugin's process went away in the middle of the start")

// undo removes what a failed start has begun: no process may be left behind, whatever
// the driver itself does. It does not touch a task that existed before. It returns the
// error for the caller.
func (p *Proxy) undo(ctx context.Context, d Driver, config *TaskConfig, begun time.Time, cause error) error {
	if errdefs.IsAlreadyExists(cause) {
		return cause
	}
	asked := ctx
	away := false
	looks := looksAfterInterruption[:1]
	if ctx.Err() != nil || errdefs.IsDeadlineExceeded(cause) || errdefs.IsCanceled(cause) {
		looks = looksAfterInterruption
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	for _, pause := range looks {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		// Ignore errors: the task does not exist, or the driver does not answer.
		err := settle(ctx, d.StopTask(ctx, config.ID, 0, "SIGKILL"))
		if away = errdefs.IsUnavailable(err); !away {
			_ = d.DestroyTask(ctx, config.Ref(), true)
		}
		if away && p.listed() {
			break // the task is not ended but looked up later, see ErrInterrupted
		}
		if p.hooks.EndLeftovers != nil {
			p.hooks.EndLeftovers(ctx, config, begun)
		}
	}
	if away && errdefs.IsUnavailable(cause) && asked.Err() == nil {
		return errdefs.New(errdefs.Unavailable, fmt.Errorf("%w: %w", ErrInterrupted, cause))
	}
	return cause
}

// Killer is a driver whose host can kill the processes of a task that the driver does
// not end.
type Killer interface {
	// KillProcesses kills the processes of a task, as far as it can identify them, and
	// returns their number.
	KillProcesses(ctx context.Context, task *TaskConfig) int
}

// KillProcesses implements Killer.
func (p *Proxy) KillProcesses(ctx context.Context, task *TaskConfig) int {
	if p.hooks.EndLeftovers == nil {
		return 0
	}
	return p.hooks.EndLeftovers(ctx, task, time.Time{})
}
