// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/sleep"
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
func (p *Proxy) undo(ctx context.Context, d Driver, gen uint64, config *TaskConfig, begun time.Time, cause error) error {
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
		_ = sleep.For(ctx, pause)
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
		return errdefs.New(errdefs.Unavailable, fmt.Errorf("%w: %w", ErrInterrupted, p.why(ctx, gen, cause)))
	}
	return cause
}

// fate is why a process no longer serves.
type fate struct {
	generation uint64
	reason     error
}

// fateLimit is how long the reason for the end of a process is awaited, which the host learns
// a moment after the end of its connections.
const fateLimit = 2 * time.Second

// why returns why the process of generation gen has ended, such as its panic, or else the error
// of its connection, which says nothing of the reason.
func (p *Proxy) why(ctx context.Context, gen uint64, closed error) error {
	ctx, cancel := context.WithTimeout(ctx, fateLimit)
	defer cancel()
	for {
		p.mu.Lock()
		now, last, changed := p.generation, p.fate, p.changed
		p.mu.Unlock()
		switch {
		case last.generation == gen && last.reason != nil:
			return last.reason
		case now != gen:
			return closed // it was replaced, or a later one was lost, too
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return closed
		}
	}
}

// explain adds to the error of a call why the process of generation gen has ended meanwhile,
// if it has.
func (p *Proxy) explain(ctx context.Context, gen uint64, err error) error {
	if !errdefs.IsUnavailable(err) {
		return err
	}
	reason := p.why(ctx, gen, err)
	if reason == err {
		return err
	}
	return errdefs.New(errdefs.Unavailable, fmt.Errorf("the plugin's process went away in the middle of the call: %w", reason))
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
