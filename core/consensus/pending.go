// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pending counts the requests that raft has not answered. Raft forgets requests that
// still wait in its queue when it shuts down, and never answers them. So a node that
// closes first rejects new requests and waits for the answers to the others.
type pending struct {
	mu      sync.Mutex
	count   int
	closing bool
	idle    chan struct{} // closed when the node closes and nothing is pending
	down    chan struct{} // closed when raft has shut down
}

func newPending() *pending {
	return &pending{idle: make(chan struct{}), down: make(chan struct{})}
}

// ask sends a request to raft and returns the error of its answer, the error of ctx if
// that ends first, or ErrRaftShutdown.
func (p *pending) ask(ctx context.Context, send func() raft.Future) error {
	if !p.begin() {
		return raft.ErrRaftShutdown
	}
	answer := make(chan error, 1)
	future := send()
	// Raft's futures cannot be cancelled. Each ends by itself: with the commit, the
	// loss of leadership or the shutdown.
	go func() {
		defer p.end()
		answer <- future.Error()
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-p.down:
		return raft.ErrRaftShutdown
	}
}

func (p *pending) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.count++
	return true
}

func (p *pending) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count--; p.closing && p.count == 0 {
		close(p.idle)
	}
}

// drain rejects further requests, and returns when all others are answered or patience
// has run out.
func (p *pending) drain(patience time.Duration) {
	p.mu.Lock()
	p.closing = true
	waiting := p.count > 0
	p.mu.Unlock()
	if !waiting {
		return
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.idle:
	case <-late.C:
	}
}
