// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package feed follows streams of measurements of plugins while there is a consumer.
// It owns when a stream is opened, reopened and closed, and how old a value may be. It
// does not own what is measured. core/pluginhost and core/agent/stats import it.
package feed

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Defaults of a feed.
const (
	TTL        = 5 * time.Second  // maximum age of a current value
	Idle       = 15 * time.Second // how long a stream stays open after it was last wanted
	Wait       = 3 * time.Second  // how long Get waits for a value
	BackoffMax = time.Minute      // longest pause before a stream is reopened
)

// Config configures a feed. R is the type of the stream's values, T of the value that
// is kept.
type Config[R, T any] struct {
	Name string // in log lines
	// Open opens the stream, whose values arrive every interval. Unimplemented: there
	// is no stream, now or later; it is not opened again until Retry. Unavailable and
	// Canceled: the plugin is away, which is not an error of the stream and not logged
	// as one.
	Open func(ctx context.Context, interval time.Duration) (<-chan R, error)
	// Take combines the kept value and a new one.
	Take func(before T, got R) T
	// Interval is the interval of values; default 1 s. It is also the first pause
	// before an ended stream is reopened; the pauses double.
	Interval time.Duration
	// Keep keeps the newest value when the stream is closed for lack of readers; otherwise
	// its memory is freed.
	Keep   bool
	Logger hclog.Logger
}

// Feed holds the newest value of a stream that is open only while it is wanted.
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
	since       time.Time // when the stream was opened, or opening was first tried
	value       T
	at          time.Time // time of value; zero if there is none
	came        uint64    // how many values have come
	err         error     // why there are no values now
	unsupported bool
	fresh       chan struct{} // closed and replaced when any of these changes
}

// paceBurst is the number of values that are read at once from a stream that delivers
// more than one per interval.
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

// Want registers interest: the stream is opened unless it is already.
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

// Retry means that a new process may serve the stream: if it is wanted, it is opened
// at once, even if the previous process could not.
func (f *Feed[R, T]) Retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsupported = false
	select {
	case f.retry <- struct{}{}:
	default:
	}
}

// Last returns the newest value and its time, however old, without registering
// interest. The time is zero if there is no value. The error says why the value is not
// current.
func (f *Feed[R, T]) Last() (T, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, f.at, f.state()
}

// state returns nil if the value is current.
func (f *Feed[R, T]) state() error {
	switch {
	case !f.at.IsZero() && time.Since(f.at) <= f.ttl:
		return nil
	case f.err != nil:
		return f.err
	}
	return errdefs.Unavailablef("%s: nothing has been measured within %s", f.cfg.Name, f.ttl)
}

// Get registers interest and waits briefly for a current value, but not if the stream
// has been open for longer and is silent. It returns the result of Last.
func (f *Feed[R, T]) Get(ctx context.Context) (T, time.Time, error) {
	return f.GetWith(ctx, func(T) bool { return true })
}

// GetWith is Get for a value that satisfies has: it waits for up to two more values
// while the newest does not.
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

// worthWaiting reports whether the next value may be better than the current one.
func (f *Feed[R, T]) worthWaiting(has func(T) bool, last uint64) bool {
	switch {
	case f.unsupported, f.err != nil, f.ctx.Err() != nil:
		return false
	case f.state() != nil:
		return time.Since(f.since) < Wait
	}
	return !has(f.value) && f.came < last
}

// change changes the state that readers see and wakes them.
func (f *Feed[R, T]) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	close(f.fresh)
	f.fresh = make(chan struct{})
}

// run follows the stream, and reopens it, until nobody wants it.
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

// follow opens the stream and stores its values until it ends or has no more readers.
func (f *Feed[R, T]) follow() (took int, err error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	values, err := f.cfg.Open(ctx, f.cfg.Interval)
	if err != nil {
		return 0, err
	}
	f.change(func() { f.err, f.since = nil, time.Now() })
	// Drain the stream, which ends soon after ctx: its sender may be blocked on it.
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
			_ = pace.Wait(ctx) // slows down a plugin that floods; the end of ctx is noticed below
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

// left returns how long the stream is still wanted.
func (f *Feed[R, T]) left() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Idle - time.Since(f.wanted)
}

// over records why a stream has ended and reports whether that is permanent.
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

// pause waits before the stream is opened again, and reports whether Retry has ended the
// pause.
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
