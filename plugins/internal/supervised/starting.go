// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// startLimit bounds how long a supervisor may take to start one task.
const startLimit = 30 * time.Second

// underWay is a start that has not ended.
type underWay struct {
	given  context.Context // done when the start is given up
	giveUp context.CancelFunc
	ended  chan struct{} // closed when the start has ended
}

// Starting is the first call of a driver's StartTask, which goes on with the context
// that it returns and calls ended when it returns. DestroyTask gives the start up.
// AlreadyExists: the task is being started.
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

// startContext returns the context for the supervisor's part of a start. That part is
// short, so it is not cut off when the caller goes away: whoever gave the start up
// destroys the task, and the next agent takes over the task of one that was killed.
func (t *Tasks) startContext(ctx context.Context, id string) (context.Context, context.CancelFunc) {
	t.mu.Lock()
	u := t.starting[id]
	t.mu.Unlock()
	if u != nil {
		ctx = u.given
	}
	return context.WithTimeout(ctx, startLimit)
}

// giveUpStart ends a start of the task that is under way, and returns when it has
// ended. FailedPrecondition: there is one, and it is not to be forced.
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
