// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// startLimit is the time limit for a supervisor to start one task.
const startLimit = 30 * time.Second

// underWay is a start in progress.
type underWay struct {
	given  context.Context // canceled when the start is given up
	giveUp context.CancelFunc
	ended  chan struct{} // closed when the start has ended
}

// Starting must be the first call in a driver's StartTask. The driver uses the
// returned context and calls ended when StartTask returns. DestroyTask cancels the
// context. Starting returns AlreadyExists if the task is already being started.
func (t *Tasks) Starting(ctx context.Context, id string) (start context.Context, ended func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.starting[id] != nil {
		return nil, nil, errdefs.AlreadyExistsf("start task %q: it is being started; wait for it, or destroy it with force", id)
	}
	u := &underWay{ended: make(chan struct{})}
	u.given, u.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	start, cancel := context.WithCancel(ctx)
	context.AfterFunc(u.given, cancel)
	t.starting[id] = u
	return start, func() {
		u.giveUp()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.starting, id)
		close(u.ended)
	}, nil
}

// startContext returns the context for the supervisor's part of a start. It is not
// canceled when the caller goes away, because that part is short: a caller that
// gives up destroys the task, and if the agent was killed, the next agent recovers
// the task.
func (t *Tasks) startContext(ctx context.Context, id string) (context.Context, context.CancelFunc) {
	t.mu.Lock()
	u := t.starting[id]
	t.mu.Unlock()
	if u != nil {
		ctx = u.given
	}
	return context.WithTimeout(ctx, startLimit)
}

// giveUpStart cancels a start of the task that is in progress, and waits until it
// has ended. It returns FailedPrecondition if there is one and force is false.
func (t *Tasks) giveUpStart(ctx context.Context, id string, force bool) error {
	t.mu.Lock()
	u := t.starting[id]
	t.mu.Unlock()
	if u == nil {
		return nil
	}
	if !force {
		return errdefs.FailedPreconditionf("destroy task %q: it is being started; wait for it, or use force", id)
	}
	u.giveUp()
	select {
	case <-u.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("destroy task %q: wait for the end of its start: %w", id, ctx.Err())
	}
}
