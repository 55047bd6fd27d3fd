// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// pool runs the leader's workers. Their number may change while they run.
type pool struct {
	mu      sync.Mutex
	count   int
	changed chan struct{} // closed at the next change
	running []member
}

// WorkerInfo describes a running worker.
type WorkerInfo struct {
	ID      string
	Started time.Time
}

type member struct {
	WorkerInfo
	dismiss context.CancelFunc
}

func newPool(count int) *pool { return &pool{count: max(count, 1), changed: make(chan struct{})} }

func (p *pool) set(count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if count == p.count {
		return
	}
	p.count = count
	close(p.changed)
	p.changed = make(chan struct{})
}

// run runs the workers until ctx ends. A surplus worker takes no further evaluations
// and finishes those that it has.
func (p *pool) run(ctx context.Context, newID func() string, work func(ctx, taking context.Context)) {
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
func (p *pool) adjust(ctx context.Context, newID func() string, start func(taking context.Context)) (changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.running) < p.count {
		taking, dismiss := context.WithCancel(ctx)
		p.running = append(p.running, member{WorkerInfo{ID: newID(), Started: time.Now()}, dismiss})
		start(taking)
	}
	for len(p.running) > p.count {
		last := len(p.running) - 1
		p.running[last].dismiss()
		p.running = p.running[:last]
	}
	return p.changed
}

func (p *pool) dismissAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.running {
		m.dismiss()
	}
	p.running = nil
}

// Workers returns the running workers and the desired number. No workers run on a
// server that is not the leader.
func (s *Server) Workers() (running []WorkerInfo, wanted int) {
	s.workers.mu.Lock()
	defer s.workers.mu.Unlock()
	for _, m := range s.workers.running {
		running = append(running, m.WorkerInfo)
	}
	return running, s.workers.count
}

// SetWorkers sets how many evaluations are scheduled concurrently.
func (s *Server) SetWorkers(count int) error {
	if count < 1 {
		return errdefs.InvalidArgumentf("a server needs at least one worker, not %d", count)
	}
	s.workers.set(count)
	return nil
}
