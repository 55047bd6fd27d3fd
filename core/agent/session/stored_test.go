// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// registrar keeps a registration, takes changes of it, and notes what came.
type registrar struct {
	rpc.Servers
	mu      sync.Mutex
	node    *model.Node
	version uint64
	came    []string
	// fail is returned for the next message; lose has its answer lost after it was stored.
	fail  error
	lose  bool
	end   chan struct{} // ends the sessions
	ahead time.Duration // by which the node's clock is ahead
	said  []string      // messages of the node's events
}

func (r *registrar) store(what string, n *model.Node) (rpc.Lease, error) {
	r.came = append(r.came, fmt.Sprint(what, " ", n.Attributes["a"], " of ", len(n.Attributes)))
	if err := r.fail; err != nil {
		r.fail = nil
		return rpc.Lease{}, err
	}
	r.node = n
	for _, e := range n.Events {
		r.said = append(r.said, e.Message)
	}
	r.version++
	if r.lose {
		r.lose = false
		return rpc.Lease{}, errdefs.Unavailablef("the connection has ended")
	}
	return rpc.Lease{TTL: 9 * time.Second, Version: r.version, Now: time.Now().Add(-r.ahead)}, nil
}

func (r *registrar) Register(_ context.Context, n *model.Node) (rpc.Lease, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store("all", n)
}

func (r *registrar) Change(_ context.Context, c *model.NodeChange) (rpc.Lease, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Base != r.version {
		r.came = append(r.came, "another version")
		return rpc.Lease{}, errdefs.Abortedf("send all")
	}
	return r.store("change", c.Apply(r.node))
}

func (r *registrar) Beat(context.Context, rpc.Identity) (rpc.Lease, error) {
	return rpc.Lease{TTL: 9 * time.Second}, nil
}

func (r *registrar) Attach(ctx context.Context, _ rpc.Identity, _ rpc.Node, _ func(*rpc.Assignments) error) error {
	r.mu.Lock()
	end := r.end
	r.mu.Unlock()
	select {
	case <-end:
		return errdefs.Unavailablef("the server stops")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestANodeTellsWhatDiffersAndAllOfItselfIfTheServersMayHaveSomethingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registrar{end: make(chan struct{})}
		s, err := session.New(t.Context(), session.Config{Servers: r, Store: keptTokens{}, NodeID: "n", Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		value := "0"
		s.Bind(session.Parts{Node: func() *model.Node {
			mu.Lock()
			defer mu.Unlock()
			return &model.Node{ID: "n", Attributes: map[string]string{"a": value, "kept": "1"}}
		}, Updates: noUpdates{}, Releases: func() {}})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { s.Run(ctx); close(over) }()
		step := func(what, to string, change func(), want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			value = to
			mu.Unlock()
			r.mu.Lock()
			r.came = nil
			change()
			r.mu.Unlock()
			s.Touch()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if !slices.Equal(slices.Compact(r.came), want) || r.node.Attributes["a"] != to || r.node.Attributes["kept"] != "1" {
				t.Errorf("%s: %q came, want %q; the servers have %v", what, r.came, want, r.node.Attributes)
			}
		}
		synctest.Wait()
		nothing := func() {}
		step("a change", "1", nothing, "change 1 of 2")
		step("another one", "2", nothing, "change 2 of 2")
		step("a server of the release before", "3", func() { r.fail = errdefs.Unimplementedf("unknown method") }, "change 3 of 2", "all 3 of 2")
		step("after that", "4", nothing, "change 4 of 2")
		step("an answer is lost", "5", func() { r.lose = true }, "change 5 of 2", "all 5 of 2")
		step("a message is lost", "6", func() { r.fail = errdefs.Unavailablef("no route") }, "change 6 of 2", "all 6 of 2")
		step("the servers have something else", "7", func() { r.version += 10 }, "another version", "all 7 of 2")
		step("the server stops, and another one has the same state", "8", func() {
			close(r.end)
			r.end = make(chan struct{})
		}, "change 8 of 2")
		cancel()
		<-over
	})
}
