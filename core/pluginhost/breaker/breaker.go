// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package breaker keeps callers from waiting, one after the other, for something
// that does not answer: after some failures in a row its calls fail at once, and
// from time to time one of them is let through to see whether that is over. It
// does not know what is called. core/pluginhost and its drivers import it.
package breaker

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Config says when a breaker opens. The zero value of a field is its default.
type Config struct {
	Failures int           // in a row that open it; default 5
	Pause    time.Duration // until a call is let through again; default 10 s
}

// Breaker guards the calls of one thing, which name tells in errors. A failure is
// an error of class Unavailable or DeadlineExceeded: every other outcome is an
// answer.
type Breaker struct {
	name    string
	cfg     Config
	changed func()

	mu      sync.Mutex
	inRow   int
	since   time.Time // when it opened; zero: it is closed
	retry   time.Time // when a call is let through
	probing bool
	last    error
}

// New returns a closed breaker. changed may be nil; it is called, without a lock
// of the breaker held, when the breaker has opened or closed.
func New(name string, cfg Config, changed func()) *Breaker {
	if cfg.Failures == 0 {
		cfg.Failures = 5
	}
	if cfg.Pause == 0 {
		cfg.Pause = 10 * time.Second
	}
	if changed == nil {
		changed = func() {}
	}
	return &Breaker{name: name, cfg: cfg, changed: changed}
}

// Do calls, unless the breaker is open: then it returns Unavailable at once. An
// end of ctx says nothing about what is called, so it is not counted.
func (b *Breaker) Do(ctx context.Context, call func(context.Context) error) error {
	if err := b.enter(); err != nil {
		return err
	}
	err := call(ctx)
	b.leave(err, ctx.Err() != nil)
	return err
}

// enter refuses a call, or lets it through.
func (b *Breaker) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return nil
	}
	now := time.Now()
	if !b.probing && !now.Before(b.retry) {
		b.probing = true
		return nil
	}
	return errdefs.Unavailablef("%s has not answered since %s and is asked again %s, so this call was not tried: %w",
		b.name, b.since.UTC().Format(time.RFC3339), b.when(now), b.last)
}

// when says when the next call is let through.
func (b *Breaker) when(now time.Time) string {
	if b.probing || !now.Before(b.retry) {
		return "right now"
	}
	return "in " + b.retry.Sub(now).Round(100*time.Millisecond).String()
}

// leave notes the outcome of a call that was let through.
func (b *Breaker) leave(err error, canceled bool) {
	b.mu.Lock()
	was := !b.since.IsZero()
	b.note(err, canceled)
	changed := was == b.since.IsZero()
	b.mu.Unlock()
	if changed {
		b.changed()
	}
}

// note changes the state by one outcome; b.mu is held.
func (b *Breaker) note(err error, canceled bool) {
	failed := errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err)
	open := !b.since.IsZero()
	if open {
		b.probing = false // a call from before it opened counts as well as the probe
	}
	switch {
	case failed && canceled:
		return
	case !failed:
		b.inRow, b.since, b.last = 0, time.Time{}, nil
		return
	}
	now := time.Now()
	b.inRow++
	b.last = err
	if b.inRow >= b.cfg.Failures {
		b.retry = now.Add(b.cfg.Pause)
		if !open {
			b.since = now
		}
	}
}

// Reset closes the breaker: what is called is another thing now.
func (b *Breaker) Reset() {
	b.mu.Lock()
	changed := !b.since.IsZero()
	b.inRow, b.since, b.last, b.probing = 0, time.Time{}, nil, false
	b.mu.Unlock()
	if changed {
		b.changed()
	}
}

// Open reports since when calls fail at once, and why. It is zero and nil while
// the breaker is closed.
func (b *Breaker) Open() (since time.Time, last error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return time.Time{}, nil
	}
	return b.since, b.last
}
