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

// undoLimit bounds how long a start that failed is undone. The caller destroys
// the task, too, when the driver can be asked again.
const undoLimit = 10 * time.Second

// Nobody hears whether a driver heeds the end of a call. So after a start that
// was interrupted it is looked again at what it may have begun meanwhile.
var looksAfterInterruption = []time.Duration{0, 300 * time.Millisecond, time.Second}

// listed reports whether the driver says which tasks it has.
func (p *Proxy) listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lists
}

// ErrInterrupted is in an error of StartTask if the plugin's process went away in the
// middle. The task need not be at fault, and what was begun may be there: the next
// process is to be asked for it, or told to destroy it, before anything else is done.
var ErrInterrupted = errors.New("the plugin's process went away in the middle of the start")

// undo takes back what a start that failed had begun: it must leave no process
// behind, whatever the driver does about it by itself. A task that existed before
// is not of this start. It returns the error that the caller gets.
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
		// Errors say that there is no such task, or that the driver cannot be asked.
		err := settle(ctx, d.StopTask(ctx, config.ID, 0, "SIGKILL"))
		if away = errdefs.IsUnavailable(err); !away {
			_ = d.DestroyTask(ctx, config.ID, true)
		}
		if away && p.listed() {
			break // what it has begun is not ended but asked for, see ErrInterrupted
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
