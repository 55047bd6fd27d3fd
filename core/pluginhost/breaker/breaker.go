// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package breaker is a circuit breaker: after several consecutive failures calls fail
// at once instead of waiting one after another for a callee that does not answer, and
// from time to time one call is let through to check whether it answers again. It does
// not know what is called. core/pluginhost and its drivers import it.
package breaker

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Config configures a breaker. Zero fields mean the defaults.
type Config struct {
	Failures int           // consecutive failures that open it; default 5
	Pause    time.Duration // time until a call is let through again; default 10 s
}

// Breaker protects the calls to one callee, whose name appears in its errors. A failure is
// an error of class Unavailable or DeadlineExceeded; every other result counts as an
// answer.
type Breaker struct {
	name    string
	cfg     Config
	changed func()

	mu      sync.Mutex
	inRow   int
	since   time.Time // when it opened; zero if it is closed
	retry   time.Time // when the next call is let through
	probing bool
	last    error
}

// New returns a closed breaker. changed may be nil; it is called, without a lock held,
// when the breaker has opened or closed.
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

// Do makes the call, unless the breaker is open: then it returns Unavailable at once.
// If ctx ends during the call, the result is not counted.
func (b *Breaker) Do(ctx context.Context, call func(context.Context) error) error {
	if err := b.enter(); err != nil {
		return err
	}
	err := call(ctx)
	b.leave(err, ctx.Err() != nil)
	return err
}

// enter admits or rejects a call.
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
	return b.refusal(now)
}

// refusal is the error of a call that was not tried. b.mu is held.
func (b *Breaker) refusal(now time.Time) error {
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

// leave records the result of an admitted call.
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

// note updates the state after one result. b.mu must be held.
func (b *Breaker) note(err error, canceled bool) {
	failed := errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err)
	open := !b.since.IsZero()
	if open {
		b.probing = false // a call that began before the breaker opened also counts as the probe
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

// Aside makes a call whose failure does not count, such as one that waits for the end of a
// process. It fails at once while the breaker is open. It never serves as the trial call of
// an open breaker, because that one must answer soon.
func (b *Breaker) Aside(ctx context.Context, call func(context.Context) error) error {
	if err := b.refused(); err != nil {
		return err
	}
	err := call(ctx)
	if !errdefs.IsUnavailable(err) && !errdefs.IsDeadlineExceeded(err) {
		b.leave(err, false)
	}
	return err
}

func (b *Breaker) refused() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return nil
	}
	return b.refusal(time.Now())
}

// Reset closes the breaker, because the callee was replaced.
func (b *Breaker) Reset() {
	b.mu.Lock()
	changed := !b.since.IsZero()
	b.inRow, b.since, b.last, b.probing = 0, time.Time{}, nil, false
	b.mu.Unlock()
	if changed {
		b.changed()
	}
}

// Open returns since when calls fail at once, and the last error; zero and nil while
// the breaker is closed.
func (b *Breaker) Open() (since time.Time, last error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return time.Time{}, nil
	}
	return b.since, b.last
}
