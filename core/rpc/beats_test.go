// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// hearing are servers that note how heartbeats arrive.
type hearing struct {
	*fake

	mu      sync.Mutex
	methods []string // of the calls that brought heartbeats
	seen    []uint64
	refuse  error
	stall   chan struct{} // unless nil: a heartbeat waits for it
}

func (h *hearing) Beat(ctx context.Context, id rpc.Identity) (rpc.Lease, error) {
	method, _ := grpc.Method(ctx)
	h.mu.Lock()
	h.methods, h.seen = append(h.methods, method), append(h.seen, id.Seen.Index)
	refuse, stall := h.refuse, h.stall
	h.mu.Unlock()
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
		}
	}
	return rpc.Lease{TTL: time.Second, Index: id.Seen.Index, Servers: []string{"b:2"}}, refuse
}

func (h *hearing) set(refuse error, stall chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse, h.stall = refuse, stall
}

func (h *hearing) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.methods...)
}

// beating returns servers, a client and what ends the session that it begins.
func beating(t *testing.T) (*hearing, *rpc.Client, func(rpc.Identity) (end func() error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hearing{fake: &fake{attached: make(chan rpc.Node, 1), pushes: make(chan *rpc.Assignments)}}
	s := rpc.NewServer(h, nil, hclog.NewNullLogger())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Close)
	c, err := rpc.Dial(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return h, c, func(id rpc.Identity) func() error {
		ctx, cancel := context.WithCancel(t.Context())
		ended, pushed := make(chan error, 1), make(chan struct{}, 1)
		go func() {
			ended <- c.Attach(ctx, id, &node{}, func(*rpc.Assignments) error {
				pushed <- struct{}{}
				return nil
			})
		}()
		<-h.attached
		h.pushes <- &rpc.Assignments{}
		<-pushed // and the announcement came before
		return func() error {
			cancel()
			return <-ended
		}
	}
}

const (
	overCall   = "/drover.rpc.v1.Servers/Beat"
	overStream = "/drover.rpc.v1.Servers/Attach"
)

func TestHeartbeatsOfAnAttachedNodeGoOverItsSession(t *testing.T) {
	h, c, attach := beating(t)
	id := rpc.Identity{NodeID: "n", SecretID: "s", Instance: "i", Session: 1}
	beat := func(id rpc.Identity, over string) {
		t.Helper()
		lease, err := c.Beat(t.Context(), id)
		if err != nil || lease.TTL != time.Second || lease.Index != id.Seen.Index {
			t.Errorf("the lease is %+v, %v", lease, err)
		}
		if got := h.heard(); got[len(got)-1] != over {
			t.Errorf("the heartbeat came over %s", got[len(got)-1])
		}
	}
	beat(id, overCall)
	end := attach(id)
	for i := range uint64(3) {
		id.Seen = model.ClusterPoint{ClusterID: "c", Index: i}
		beat(id, overStream)
	}
	other := id
	other.Session = 2
	beat(other, overCall) // the session is not its own
	_ = end()
	beat(id, overCall)
	if known := c.Known(); len(known) != 2 || known[1] != "b:2" {
		t.Errorf("the servers known from leases are %v", known)
	}
}

func TestARefusedHeartbeatIsRepeatedAsACallForItsError(t *testing.T) {
	h, c, attach := beating(t)
	id := rpc.Identity{NodeID: "n", SecretID: "s"}
	defer attach(id)()
	h.set(errdefs.WithReason(errdefs.FailedPreconditionf("not ready"), rpc.ReasonLeave), nil)
	if _, err := c.Beat(t.Context(), id); !errdefs.IsFailedPrecondition(err) || errdefs.ReasonOf(err) != rpc.ReasonLeave {
		t.Errorf("got %v", err)
	}
	if got := h.heard(); len(got) != 2 || got[1] != overCall {
		t.Errorf("heard over %v", got)
	}
}

func TestAHeartbeatWithoutAnswerEndsWithItsTime(t *testing.T) {
	h, c, attach := beating(t)
	id := rpc.Identity{NodeID: "n", SecretID: "s"}
	defer attach(id)()
	stall := make(chan struct{})
	h.set(nil, stall)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Beat(ctx, id); !errdefs.IsDeadlineExceeded(err) {
		t.Errorf("got %v", err)
	}
	h.set(nil, nil)
	close(stall)
	if lease, err := c.Beat(t.Context(), id); err != nil || lease.TTL != time.Second { // and is not the answer to the first
		t.Errorf("the next one got %+v, %v", lease, err)
	}
}

func TestAHeartbeatDuringTheEndOfItsSessionIsRepeatedAsACall(t *testing.T) {
	h, c, attach := beating(t)
	id := rpc.Identity{NodeID: "n", SecretID: "s"}
	end := attach(id)
	stall := make(chan struct{})
	h.set(nil, stall)
	got := make(chan error, 1)
	go func() {
		_, err := c.Beat(t.Context(), id)
		got <- err
	}()
	testkit.Eventually(t, "the heartbeat has arrived", func() bool { return len(h.heard()) > 0 })
	h.set(nil, nil)
	_ = end()
	if err := <-got; err != nil {
		t.Error(err)
	}
	if over := h.heard(); over[len(over)-1] != overCall {
		t.Errorf("heard over %v", over)
	}
}
