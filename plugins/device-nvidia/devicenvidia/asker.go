// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package devicenvidia

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/plugins/device-nvidia/nvml"
	"github.com/drover-project/drover/sdk/errdefs"
)

// answerLimit is how long the library may take. It cannot be interrupted: a GPU
// that fell off its bus keeps a call for minutes or for ever.
const answerLimit = 10 * time.Second

// asker asks the library one question at a time and waits no longer than
// answerLimit. While a call hangs, others fail at once, so that there is never
// more than one thread in it.
type asker struct {
	open  func(path string) (nvml.Library, error)
	limit time.Duration
	turn  chan struct{} // holds a token while a question is in the library

	mu     sync.Mutex
	path   string
	hung   time.Time // since when a question has had no answer
	lib    nvml.Library
	opened string // lib's path
}

func newAsker(open func(string) (nvml.Library, error)) *asker {
	return &asker{open: open, limit: answerLimit, turn: make(chan struct{}, 1)}
}

// use has the library at path asked from now on.
func (a *asker) use(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.path = path
}

// library returns the open library; the caller has the turn.
func (a *asker) library() (nvml.Library, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lib != nil && a.opened != a.path {
		_ = a.lib.Close() // it is not used again whatever it says
		a.lib = nil
	}
	if a.lib == nil {
		lib, err := a.open(a.path)
		if err != nil {
			return nil, err
		}
		a.lib, a.opened = lib, a.path
	}
	return a.lib, nil
}

func (a *asker) hangs(yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !yes:
		a.hung = time.Time{}
	case a.hung.IsZero():
		a.hung = time.Now()
	}
}

func (a *asker) late() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errdefs.DeadlineExceededf("NVIDIA's library has not answered since %s: a GPU may hang or have fallen off its bus; see the kernel's log (dmesg | grep NVRM), reset the GPU or restart the machine",
		a.hung.Format(time.RFC3339))
}

// ask has f ask the library. DeadlineExceeded: it, or a question before it, has
// no answer; f may then still be running.
func ask[T any](caller context.Context, a *asker, f func(nvml.Library) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(caller, a.limit)
	defer cancel()
	a.mu.Lock()
	hung := !a.hung.IsZero()
	a.mu.Unlock()
	if hung {
		select {
		case a.turn <- struct{}{}:
		default:
			return none, a.late()
		}
	} else {
		select {
		case a.turn <- struct{}{}:
		case <-ctx.Done():
			if caller.Err() != nil {
				return none, caller.Err()
			}
			return none, errdefs.DeadlineExceededf("wait for NVIDIA's library: %w", ctx.Err())
		}
	}
	type answer struct {
		v   T
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-a.turn }()
		lib, err := a.library()
		if err != nil {
			answered <- answer{err: err}
			return
		}
		v, err := f(lib)
		a.hangs(false)
		answered <- answer{v, err}
	}()
	select {
	case r := <-answered:
		return r.v, r.err
	case <-ctx.Done():
		if caller.Err() != nil { // it gave up, which says nothing of the library
			return none, caller.Err()
		}
		a.hangs(true)
		return none, a.late()
	}
}
