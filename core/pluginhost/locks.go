// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// locks serialize the operations on each plugin. Names without an operation are not
// stored, so that callers may use any name.
type locks struct {
	mu     sync.Mutex
	byName map[string]*turn
}

// turn is the lock of one plugin, with the number of callers that hold it or wait for
// it.
type turn struct {
	taken chan struct{}
	users int
}

func newLocks() *locks { return &locks{byName: map[string]*turn{}} }

func (l *locks) enter(name string) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.byName[name]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		l.byName[name] = t
	}
	t.users++
	return t
}

func (l *locks) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.byName[name]
	if t.users--; t.users == 0 {
		delete(l.byName, name)
	}
}

// tryLock is lock for callers that will try again later.
func (h *Host) tryLock(name string) (unlock func(), ok bool) {
	t := h.locks.enter(name)
	select {
	case t.taken <- struct{}{}:
		return func() { h.unlock(name, t) }, true
	default:
		h.locks.leave(name)
		return nil, false
	}
}

// lock waits for all other operations on the plugin. Operators' requests wait until
// ctx ends.
func (h *Host) lock(ctx context.Context, name string) (unlock func(), err error) {
	t := h.locks.enter(name)
	select {
	case t.taken <- struct{}{}:
		return func() { h.unlock(name, t) }, nil
	case <-ctx.Done():
		h.locks.leave(name)
		return nil, errdefs.DeadlineExceededf("plugin %q: something else is still being done to it; try again: %w", name, ctx.Err())
	}
}

func (h *Host) unlock(name string, t *turn) {
	<-t.taken
	h.locks.leave(name)
}
