// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/drover-project/drover/sdk/errdefs"
)

// TaskStats delivers samples until ctx ends or the host closes. When another process
// takes over, samples of the old one are delivered until the new one has some, so that
// there is no gap.
func (p *Proxy) TaskStats(ctx context.Context, interval time.Duration) (<-chan []TaskStats, error) {
	return follow(ctx, p, interval+overlapExtra, rate.NewLimiter(rate.Every(interval/2), streamBurst), func(ctx context.Context, d Driver) (<-chan []TaskStats, error) {
		return d.TaskStats(ctx, interval)
	})
}

// overlapExtra is how much longer than an interval a new process may take for its
// first samples before the old one's end.
const overlapExtra = 2 * time.Second

// A plugin that sends too much is read slowly, and gRPC's flow control then slows it
// down: events at eventRate per second after eventBurst events, samples at twice the
// requested rate after streamBurst samples.
const (
	eventRate   = 200
	eventBurst  = 2000
	streamBurst = 20
)

// TaskEvents delivers events until ctx ends or the host closes.
func (p *Proxy) TaskEvents(ctx context.Context) (<-chan TaskEvent, error) {
	return follow(ctx, p, 0, rate.NewLimiter(eventRate, eventBurst), func(ctx context.Context, d Driver) (<-chan TaskEvent, error) { return d.TaskEvents(ctx) })
}

type opener[T any] func(ctx context.Context, d Driver) (<-chan T, error)

// source is a stream of one process.
type source[T any] struct {
	in    <-chan T
	gen   uint64
	close func() // ends it; in is then read to its end
}

// follow joins the streams of consecutive processes into one. A replaced stream
// continues for up to overlap, until the next one delivers something.
func follow[T any](ctx context.Context, p *Proxy, overlap time.Duration, pace *rate.Limiter, open opener[T]) (<-chan T, error) {
	first, err := openIn(ctx, p, p.limits.Ready, open)
	if err != nil {
		return nil, err
	}
	f := &follower[T]{proxy: p, overlap: overlap, pace: pace, open: open, out: make(chan T), now: first}
	go f.run(ctx)
	return f.out, nil
}

// openIn opens a stream in the current process.
func openIn[T any](ctx context.Context, p *Proxy, wait time.Duration, open opener[T]) (*source[T], error) {
	d, gen, err := p.acquire(ctx, wait)
	if err != nil {
		return nil, err
	}
	during, cancel := context.WithCancel(ctx)
	in, err := open(during, d)
	if err != nil {
		cancel()
		p.leave(gen)
		return nil, settle(ctx, err)
	}
	return &source[T]{in: in, gen: gen, close: func() {
		cancel()
		go func() {
			for range in { // the stream ends with its context, once its buffered values are read
			}
			p.leave(gen)
		}()
	}}, nil
}

// follower joins the streams of one process after another into one stream.
type follower[T any] struct {
	proxy   *Proxy
	overlap time.Duration
	pace    *rate.Limiter
	open    opener[T]
	out     chan T
	now     *source[T] // nil while there is none
	next    *source[T] // stream of the process that takes over; nil if none is taking over
	until   time.Time  // when next takes over even if it has delivered nothing
	// held has the value that the reader has not taken yet. While a slow reader lets it
	// wait, the follower can still leave an old process.
	held []T
}

func (f *follower[T]) run(ctx context.Context) {
	defer close(f.out)
	defer f.drop()
	for ctx.Err() == nil {
		if f.now == nil && !f.reopen(ctx) {
			return
		}
		_, gen, changed, closed := f.proxy.state()
		if closed {
			return
		}
		if gen != f.now.gen && f.next == nil {
			f.succeed(ctx)
		}
		f.step(ctx, changed)
	}
}

// reopen opens a stream in whatever process serves next; false is the end.
func (f *follower[T]) reopen(ctx context.Context) bool {
	for ctx.Err() == nil {
		s, err := openIn(ctx, f.proxy, 0, f.open)
		if err == nil {
			f.now = s
			return true
		}
		if errdefs.IsUnimplemented(err) {
			return false // the reader asks again and gets the error
		}
		_, gen, _, closed := f.proxy.state()
		if closed || !f.proxy.pause(ctx, "", gen) {
			return false
		}
	}
	return false
}

// succeed opens a stream in the process that took over, if one did.
func (f *follower[T]) succeed(ctx context.Context) {
	if d, _, _, _ := f.proxy.state(); d == nil {
		return // the process is gone and its stream ends by itself
	}
	s, err := openIn(ctx, f.proxy, f.proxy.limits.Ready, f.open)
	if err != nil {
		return // the old stream continues until it ends; then another attempt is made
	}
	f.next, f.until = s, time.Now().Add(f.overlap)
	if f.overlap == 0 {
		f.advance()
	}
}

func (f *follower[T]) advance() {
	f.now.close()
	f.now, f.next = f.next, nil
}

func (f *follower[T]) drop() {
	for _, s := range []*source[T]{f.now, f.next} {
		if s != nil {
			s.close()
		}
	}
}

// step receives or delivers one value, or handles one change.
func (f *follower[T]) step(ctx context.Context, changed <-chan struct{}) {
	now, next := f.now.in, (<-chan T)(nil)
	var late <-chan time.Time
	if f.next != nil {
		next = f.next.in
		timer := time.NewTimer(time.Until(f.until))
		defer timer.Stop()
		late = timer.C
	}
	var out chan<- T
	var held T
	if len(f.held) > 0 {
		out, held, now, next = f.out, f.held[0], nil, nil
	}
	select {
	case out <- held:
		f.held = nil
		if f.pace.Wait(ctx) != nil { // ctx has ended, or will before the next value may be read
			<-ctx.Done()
		}
	case v, ok := <-now:
		if !ok {
			f.ended(ctx)
			return
		}
		f.held = []T{v}
	case v, ok := <-next:
		f.advance()
		if ok {
			f.held = []T{v}
		}
	case <-late:
		f.advance()
	case <-changed:
	case <-ctx.Done():
	}
}

// ended continues after the end of the current stream, with the next one or after a
// pause, because a driver may repeatedly end its streams at once.
func (f *follower[T]) ended(ctx context.Context) {
	gen := f.now.gen
	f.advance()
	if f.now == nil {
		f.proxy.pause(ctx, "", gen)
	}
}
