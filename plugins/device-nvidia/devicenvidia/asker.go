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

// answerLimit is the time limit of a call of the library. A call cannot be
// interrupted: a GPU that has fallen off the bus may block it for minutes or
// forever.
const answerLimit = 10 * time.Second

// asker makes one call of the library at a time and waits for it at most
// answerLimit. While a call hangs, further calls fail at once, so at most one thread
// is blocked in the library.
type asker struct {
	open  func(path string) (nvml.Library, error)
	limit time.Duration
	turn  chan struct{} // holds a token while a call is running

	mu     sync.Mutex
	path   string
	hung   time.Time // since when a call has hung; zero if none does
	lib    nvml.Library
	opened string // path of lib
}

func newAsker(open func(string) (nvml.Library, error)) *asker {
	return &asker{open: open, limit: answerLimit, turn: make(chan struct{}, 1)}
}

// use sets the path of the library for further calls.
func (a *asker) use(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.path = path
}

// library returns the library and opens it if necessary. The caller must hold turn.
func (a *asker) library() (nvml.Library, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lib != nil && a.opened != a.path {
		_ = a.lib.Close() // its error does not matter, since it is not used again
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

// ask runs f with the library. It returns DeadlineExceeded if this call or an
// earlier one hangs; f may then still be running.
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
		if caller.Err() != nil { // the caller gave up; the library may be fine
			return none, caller.Err()
		}
		a.hangs(true)
		return none, a.late()
	}
}
