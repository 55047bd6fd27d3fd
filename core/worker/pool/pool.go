// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package pool runs as many workers as are wanted, and follows changes of their number. Its
// caller says what a worker does. core/server composes it.
package pool

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Pool runs the leader's workers. Their number may change while they run.
type Pool struct {
	mu      sync.Mutex
	count   int
	changed chan struct{} // closed at the next change
	running []running
}

// Worker describes a running worker.
type Worker struct {
	ID      string
	Started time.Time
}

type running struct {
	Worker
	dismiss context.CancelFunc
}

// New returns a Pool of count workers, at least one. None runs before Run.
func New(count int) *Pool { return &Pool{count: max(count, 1), changed: make(chan struct{})} }

// Set sets how many workers run. InvalidArgument: there must be one.
func (p *Pool) Set(count int) error {
	if count < 1 {
		return errdefs.InvalidArgumentf("a server needs at least one worker, not %d", count)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if count == p.count {
		return nil
	}
	p.count = count
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// Running returns the running workers and the desired number. No workers run on a server
// that is not the leader.
func (p *Pool) Running() (now []Worker, wanted int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.running {
		now = append(now, w.Worker)
	}
	return now, p.count
}

// Run runs the workers until ctx ends. A surplus worker takes no further evaluations,
// because taking ends, and finishes those that it has.
func (p *Pool) Run(ctx context.Context, newID func() string, work func(ctx, taking context.Context)) {
	var wg sync.WaitGroup
	for ctx.Err() == nil {
		changed := p.adjust(ctx, newID, func(taking context.Context) {
			wg.Go(func() { work(ctx, taking) })
		})
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	p.dismissAll()
	wg.Wait()
}

// adjust starts and stops workers until the desired number runs. It returns a channel
// that is closed when that number changes.
func (p *Pool) adjust(ctx context.Context, newID func() string, start func(taking context.Context)) (changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.running) < p.count {
		taking, dismiss := context.WithCancel(ctx)
		p.running = append(p.running, running{Worker{ID: newID(), Started: time.Now()}, dismiss})
		start(taking)
	}
	for len(p.running) > p.count {
		last := len(p.running) - 1
		p.running[last].dismiss()
		p.running = p.running[:last]
	}
	return p.changed
}

func (p *Pool) dismissAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.running {
		w.dismiss()
	}
	p.running = nil
}
