// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"context"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// numbered is a server whose leases have its number, and name other servers.
type numbered struct {
	fake
	number uint64
	others []string
}

func (n *numbered) Beat(context.Context, rpc.Identity) (rpc.Lease, error) {
	return rpc.Lease{Index: n.number, Servers: n.others}, nil
}

func beatOf(t *testing.T, c *rpc.Client) uint64 {
	t.Helper()
	lease, err := c.Beat(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	return lease.Index
}

func TestAClientThatLeavesAServerGoesToAnotherAndKeepsAllInMind(t *testing.T) {
	one, two := &numbered{number: 1}, &numbered{number: 2}
	first, second := serve(t, one), serve(t, two)
	c, err := rpc.DialAny([]string{first}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Leave() {
		t.Error("it leaves the only server that it knows")
	}
	beatOf(t, c)
	if c.Leave() {
		t.Error("it leaves the only server that it knows")
	}
	one.others = []string{first, second, "nonsense"}
	if got := beatOf(t, c); got != 1 || !slices.Equal(c.Known(), []string{first, second}) {
		t.Fatalf("server %d, known %v", got, c.Known())
	}
	for i := range 6 { // also back to one that it has just left
		if !c.Leave() {
			t.Fatal("it does not leave")
		}
		if got, want := beatOf(t, c), uint64(2-i%2); got != want {
			t.Fatalf("after %d moves it is with %d", i+1, got)
		}
		if len(c.Known()) != 2 {
			t.Errorf("it knows %v", c.Known())
		}
	}
	if err := c.SetServers([]string{second}); err != nil || !slices.Equal(c.Known(), []string{second}) || beatOf(t, c) != 2 {
		t.Errorf("set: %v, known %v", err, c.Known())
	}
	for _, bad := range [][]string{nil, {"x"}, {second, ""}, {"x:zz"}, {":4647"}, {"x:0"}, {"x:99999"}} {
		if err := c.SetServers(bad); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A session that stayed with a server that is none of the node's any more would get requests
// whose answers go to another server.
func TestASessionEndsWhenItsServerIsNoLongerOneOfTheNodes(t *testing.T) {
	one, two := &numbered{number: 1}, &numbered{number: 2}
	one.attached, one.pushes = make(chan rpc.Node, 1), make(chan *rpc.Assignments)
	first, second := serve(t, one), serve(t, two)
	c, err := rpc.DialAny([]string{first}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ended, pushed := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- c.Attach(t.Context(), known, &node{}, func(*rpc.Assignments) error { pushed <- struct{}{}; return nil })
	}()
	push := func() {
		one.pushes <- &rpc.Assignments{}
		<-pushed
	}
	<-one.attached
	push()
	if err := c.SetServers([]string{second, first}); err != nil {
		t.Fatal(err)
	}
	push() // it goes on
	if err := c.SetServers([]string{second}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errdefs.IsAborted(err) {
		t.Errorf("the session ended: %v", err)
	}
	if got := beatOf(t, c); got != 2 {
		t.Errorf("it is with server %d", got)
	}
}
