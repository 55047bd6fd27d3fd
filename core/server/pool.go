// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// pool is the workers that a leader runs; their number may change while they do.
type pool struct {
	mu      sync.Mutex
	count   int
	changed chan struct{} // closed at the next change
	running []WorkerInfo
}

// WorkerInfo is a worker that runs.
type WorkerInfo struct {
	ID      string
	Started time.Time
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

// begin names as many workers as are wanted now, and tells when that changes.
func (p *pool) begin(now time.Time, newID func() string) (ids int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = make([]WorkerInfo, p.count)
	for i := range p.running {
		p.running[i] = WorkerInfo{ID: newID(), Started: now}
	}
	return p.count, p.changed
}

func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = nil
}

// run runs the workers until ctx ends. When their number changes they finish
// what they are at (an eval that is given up is scheduled by another) and begin
// anew.
func (p *pool) run(ctx context.Context, newID func() string, work func(context.Context)) {
	defer p.end()
	for ctx.Err() == nil {
		n, changed := p.begin(time.Now(), newID)
		round, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() { work(round) })
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
		wg.Wait()
	}
}

// Workers are the workers that run here and how many are wanted: none run on a
// server that does not lead.
func (s *Server) Workers() (running []WorkerInfo, wanted int) {
	s.workers.mu.Lock()
	defer s.workers.mu.Unlock()
	return append([]WorkerInfo(nil), s.workers.running...), s.workers.count
}

// SetWorkers changes how many evaluations are scheduled at the same time.
func (s *Server) SetWorkers(count int) error {
	if count < 1 {
		return errdefs.InvalidArgumentf("a server needs at least one worker, not %d", count)
	}
	s.workers.set(count)
	return nil
}
