// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package feed follows streams of measurements of plugins while somebody wants
// them. It owns when a stream is opened, when it is opened again, when it is given
// up, and how old a value may be. It does not own what is measured.
// core/pluginhost and core/agent/stats import it.
package feed

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Times of a feed that its Config does not set.
const (
	TTL        = 5 * time.Second  // how old a value may be and still count as one of now
	Idle       = 15 * time.Second // how long a stream goes on after it was wanted last
	Wait       = 3 * time.Second  // how long Get waits for a value
	BackoffMax = time.Minute      // the longest pause before a stream is opened again
)

// Config says what a feed follows. R is what the stream brings, T what is kept.
type Config[R, T any] struct {
	Name string // in log lines
	// Open opens the stream, whose values come every interval. An error of class
	// Unimplemented means that there is none, now or later: it is not asked again
	// until Retry. Unavailable and Canceled mean that the plugin is away, which is
	// no error of the stream and not logged as one.
	Open func(ctx context.Context, interval time.Duration) (<-chan R, error)
	// Take makes what is kept of what was kept before and what has come.
	Take func(before T, got R) T
	// Interval is how often values come; default 1 s. It is also the first pause
	// before a stream that has ended is opened again; the pauses double.
	Interval time.Duration
	// Keep keeps the newest value when the stream is given up because nobody
	// wants it; without it the memory is given back.
	Keep   bool
	Logger hclog.Logger
}

// Feed is the newest value of a stream that is open only while it is wanted.
type Feed[R, T any] struct {
	cfg    Config[R, T]
	ttl    time.Duration
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	retry  chan struct{}

	mu          sync.Mutex
	wanted      time.Time // last
	running     bool
	since       time.Time // when the stream was opened, or first tried to be
	value       T
	at          time.Time // when value came; zero: there is none
	came        uint64    // how many values have come
	err         error     // why nothing comes now
	unsupported bool
	fresh       chan struct{} // closed and replaced when any of these changes
}

// paceBurst is how many values are taken at once of a stream that brings more of
// them than one per interval.
const paceBurst = 10

// New makes a feed. Nothing is opened until it is wanted.
func New[R, T any](cfg Config[R, T]) *Feed[R, T] {
	if cfg.Interval <= 0 {
		cfg.Interval = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Feed[R, T]{
		cfg: cfg, ttl: max(TTL, 2*cfg.Interval), ctx: ctx, cancel: cancel, retry: make(chan struct{}, 1), fresh: make(chan struct{}),
	}
}

// Close ends the feed.
func (f *Feed[R, T]) Close() {
	f.mu.Lock() // nothing begins once it is ended
	f.cancel()
	f.mu.Unlock()
	f.work.Wait()
}

// Want says that somebody wants values: the stream is opened unless it is.
func (f *Feed[R, T]) Want() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want()
}

func (f *Feed[R, T]) want() {
	f.wanted = time.Now()
	if f.running || f.unsupported || f.ctx.Err() != nil {
		return
	}
	f.running, f.err, f.since = true, nil, f.wanted
	f.work.Go(f.run)
}

// Open reports whether the stream is followed, or about to be.
func (f *Feed[R, T]) Open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// Retry says that a new process may serve the stream: it is asked again at once,
// if somebody wants it, also if the one before could not.
func (f *Feed[R, T]) Retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsupported = false
	select {
	case f.retry <- struct{}{}:
	default:
	}
}

// Last returns the newest value and when it came, however old it is, without
// wanting it. The time is zero if there is none. The error says why the value is
// not one of now.
func (f *Feed[R, T]) Last() (T, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, f.at, f.state()
}

// state is nil if the value is one of now.
func (f *Feed[R, T]) state() error {
	switch {
	case !f.at.IsZero() && time.Since(f.at) <= f.ttl:
		return nil
	case f.err != nil:
		return f.err
	}
	return errdefs.Unavailablef("%s: nothing has been measured within %s", f.cfg.Name, f.ttl)
}

// Get wants a value of now and waits a while for it; not for a stream that has been
// open for longer and is silent. What it returns is what Last would return then.
func (f *Feed[R, T]) Get(ctx context.Context) (T, time.Time, error) {
	return f.GetWith(ctx, func(T) bool { return true })
}

// GetWith is Get for a value that has something: it waits for the next two values
// while the newest has not.
func (f *Feed[R, T]) GetWith(ctx context.Context, has func(T) bool) (T, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, Wait)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want()
	for last := f.came + 2; ctx.Err() == nil && f.worthWaiting(has, last); {
		fresh := f.fresh
		f.mu.Unlock()
		select {
		case <-fresh:
		case <-ctx.Done():
		}
		f.mu.Lock()
	}
	return f.value, f.at, f.state()
}

// worthWaiting tells whether what comes next may be better than what there is.
func (f *Feed[R, T]) worthWaiting(has func(T) bool, last uint64) bool {
	switch {
	case f.unsupported, f.err != nil, f.ctx.Err() != nil:
		return false
	case f.state() != nil:
		return time.Since(f.since) < Wait
	}
	return !has(f.value) && f.came < last
}

// change changes what readers see and wakes them.
func (f *Feed[R, T]) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	close(f.fresh)
	f.fresh = make(chan struct{})
}

// run follows the stream, opened again and again, until nobody wants it.
func (f *Feed[R, T]) run() {
	logged := false
	for failures := 0; ; failures++ {
		took, err := f.follow()
		if took > 0 {
			failures, logged = 0, false
		}
		if f.over(err) {
			return
		}
		if !logged && !errdefs.IsUnavailable(err) && !errdefs.IsCanceled(err) {
			f.cfg.Logger.Warn("nothing is measured; it is tried again", "what", f.cfg.Name, "error", err)
			logged = true
		}
		if f.pause(failures) {
			failures = -1
		}
	}
}

// follow opens the stream and takes what comes until it ends or is not wanted.
func (f *Feed[R, T]) follow() (took int, err error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	values, err := f.cfg.Open(ctx, f.cfg.Interval)
	if err != nil {
		return 0, err
	}
	f.change(func() { f.err, f.since = nil, time.Now() })
	// Read to its end, which comes soon after that of ctx: whoever sends may wait for a reader.
	defer func() {
		cancel()
		for range values { // dropped
		}
	}()
	unwanted := time.NewTimer(Idle)
	defer unwanted.Stop()
	pace := rate.NewLimiter(rate.Every(f.cfg.Interval/2), paceBurst)
	for {
		select {
		case v, open := <-values:
			if !open {
				return took, errdefs.Unavailablef("%s: its stream has ended", f.cfg.Name)
			}
			took++
			f.change(func() { f.value, f.at, f.err, f.came = f.cfg.Take(f.value, v), time.Now(), nil, f.came+1 })
			_ = pace.Wait(ctx) // a plugin that floods is held back; the end of ctx, which has no deadline, is seen below
		case <-unwanted.C:
			left := f.left()
			if left <= 0 {
				return took, nil
			}
			unwanted.Reset(left)
		case <-f.ctx.Done():
			return took, nil
		}
	}
}

// left is how long the stream is still wanted.
func (f *Feed[R, T]) left() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Idle - time.Since(f.wanted)
}

// over notes why a stream has ended and tells whether that is for good.
func (f *Feed[R, T]) over(err error) bool {
	over := false
	f.change(func() {
		f.err = err
		f.unsupported = errdefs.IsUnimplemented(err)
		over = f.unsupported || f.ctx.Err() != nil || time.Since(f.wanted) >= Idle
		if !over {
			return
		}
		f.running = false
		if !f.cfg.Keep || f.unsupported {
			var none T
			f.value, f.at = none, time.Time{}
		}
	})
	return over
}

// pause waits before the stream is opened again, and tells whether Retry cut it short.
func (f *Feed[R, T]) pause(failures int) (cut bool) {
	d := BackoffMax
	if failures < 16 {
		d = min(BackoffMax, f.cfg.Interval<<max(failures, 0))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.retry:
		return true
	case <-f.ctx.Done():
	}
	return false
}
