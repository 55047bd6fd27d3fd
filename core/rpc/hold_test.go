// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// holder are servers whose sessions need no goroutine that waits.
type holder struct {
	fake
	held chan *held
}

// held is a session.
type held struct {
	ctx  context.Context
	push func(*rpc.Assignments) error
	lose func(error)
	over chan struct{} // closed by its end
}

func (h *holder) Identify(rpc.Identity) error { return nil }

func (h *holder) Beat(_ context.Context, id rpc.Identity) (rpc.Lease, error) {
	return rpc.Lease{TTL: time.Minute, Index: id.Seen.Index}, nil
}

func (h *holder) Attach(context.Context, rpc.Identity, rpc.Node, func(*rpc.Assignments) error) error {
	return errdefs.Internalf("the servers hold sessions")
}

func (h *holder) Hold(ctx context.Context, id rpc.Identity, _ rpc.Node, push func(*rpc.Assignments) error, lose func(error)) (func(), error) {
	if id.Instance == "other" {
		return nil, errdefs.AlreadyExistsf("another agent acts as the node")
	}
	s := &held{ctx: ctx, push: push, lose: lose, over: make(chan struct{})}
	h.held <- s
	return func() { close(s.over) }, nil
}

// holdOne begins a session and pushes to it once.
func holdOne(t *testing.T, h *holder, c *rpc.Client, ctx context.Context) (*held, <-chan error) {
	t.Helper()
	ended, pushed := make(chan error, 1), make(chan uint64, 1)
	go func() {
		ended <- c.Attach(ctx, known, &node{}, func(a *rpc.Assignments) error { pushed <- a.Index; return nil })
	}()
	s := <-h.held
	if err := s.push(&rpc.Assignments{Index: 7}); err != nil {
		t.Fatal(err)
	}
	if got := <-pushed; got != 7 {
		t.Errorf("the index %d was pushed", got)
	}
	return s, ended
}

func TestASessionThatIsHeldIsToldPushesAndBeatsAndEndsForItsCause(t *testing.T) {
	h := &holder{held: make(chan *held, 1)}
	c := dial(t, h)
	s, ended := holdOne(t, h, c, t.Context())
	id := known
	id.Seen.Index = 11
	if lease, err := c.Beat(t.Context(), id); err != nil || lease.Index != 11 {
		t.Errorf("a heartbeat: %+v, %v", lease, err)
	}
	s.lose(errdefs.Conflictf("the servers are of another cluster"))
	if err := <-ended; !errdefs.IsConflict(err) {
		t.Errorf("the session ended with %v", err)
	}
	<-s.over
	if s.ctx.Err() == nil {
		t.Error("the context of the session goes on")
	}
	if err := s.push(&rpc.Assignments{}); err == nil {
		t.Error("something was pushed after the end")
	}
}

func TestASessionThatIsHeldEndsWithItsNode(t *testing.T) {
	h := &holder{held: make(chan *held, 1)}
	c := dial(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	s, ended := holdOne(t, h, c, ctx)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the session ended well")
	}
	<-s.over
	other := known
	other.Instance = "other"
	if err := c.Attach(t.Context(), other, &node{}, nil); !errdefs.IsAlreadyExists(err) {
		t.Errorf("a session that is refused: %v", err)
	}
}
