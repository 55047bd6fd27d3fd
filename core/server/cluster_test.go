// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/internal/testkit"
)

// namespace writes a namespace through a server and returns the index of the write.
func namespace(t *testing.T, m *testkit.Member, name string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	index, err := propose.Commands(ctx, m.Raft(), &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: name}}})
	if err != nil {
		t.Fatalf("write through %s: %v", m.Address, err)
	}
	return index
}

// everywhere waits until servers have a namespace.
func everywhere(t *testing.T, name string, members ...*testkit.Member) {
	t.Helper()
	for _, m := range members {
		testkit.Eventually(t, m.Address+" has "+name, func() bool {
			return m.Endpoint().View().NamespaceByName(name) != nil
		})
	}
}

func TestThreeServersElectALeaderAndAnotherLeadsWhenItStops(t *testing.T) {
	c := testkit.NewServers(t, 3)
	first := c.Leader()
	namespace(t, first, "one")
	everywhere(t, "one", c.All...)

	follower := c.Follower()
	var not *consensus.NotLeaderError
	if _, err := propose.Commands(t.Context(), follower.Raft(), &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: "no"}}}); !errors.As(err, &not) || not.Leader.ID != first.ID() {
		t.Errorf("a write through a follower: %v, want the name of the leader", err)
	}
	if err := follower.WaitLeader(t.Context()); err != nil {
		t.Errorf("a follower that knows the leader waits for one: %v", err)
	}
	if running, _ := follower.Workers().Running(); len(running) != 0 {
		t.Errorf("%d workers run on a follower", len(running))
	}

	first.Stop()
	second := c.Leader()
	if second == first {
		t.Fatal("a stopped server leads")
	}
	namespace(t, second, "two")
	testkit.Eventually(t, "the new leader's workers run", func() bool {
		running, wanted := second.Workers().Running()
		return len(running) == wanted
	})
	first.Start()
	everywhere(t, "two", c.All...)
	if view := first.Endpoint().View(); view.NamespaceByName("one") == nil {
		t.Error("the server that was started again has lost an acknowledged write")
	}
}

func TestALeaderThatIsCutOffStopsLeadingAndItsWorkEnds(t *testing.T) {
	c := testkit.NewServers(t, 3)
	first := c.Leader()
	first.Cut()
	second := c.Leader()
	namespace(t, second, "new")
	testkit.Eventually(t, "the old leader's work has ended", func() bool {
		running, _ := first.Workers().Running()
		return !first.Leads() && len(running) == 0
	})
	first.Heal()
	everywhere(t, "new", c.All...)
}

func TestANewServerKeepsItsIDUntilALeaderAddsIt(t *testing.T) {
	c := testkit.NewServers(t, 1)
	fresh := c.Add()
	fresh.Start()
	id := fresh.ID()
	fresh.Stop()
	fresh.Start()
	if fresh.ID() != id {
		t.Fatalf("after a restart before it is a member: id %s, was %s", fresh.ID(), id)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := fresh.WaitLeader(shortly(ctx)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that nobody has added: %v", err)
	}
	if err := c.Leader().Raft().AddServer(ctx, consensus.Server{ID: id, Address: fresh.Address, Voter: true}); err != nil {
		t.Fatal(err)
	}
	if err := fresh.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	fresh.Stop()
	fresh.Start()
	if fresh.ID() != id {
		t.Errorf("after a restart as a member: id %s, was %s", fresh.ID(), id)
	}
	namespace(t, c.Leader(), "joined")
	everywhere(t, "joined", c.All...)
}

// shortly returns a context that has ended.
func shortly(ctx context.Context) context.Context {
	ctx, cancel := context.WithDeadline(ctx, time.Now())
	cancel()
	return ctx
}

func TestALeaderThatIsCutOffAnswersNoReadAlsoBeforeItNotices(t *testing.T) {
	c := testkit.NewServers(t, 3)
	first := c.Leader()
	namespace(t, first, "old")
	for _, mode := range []api.ReadMode{api.ReadDefault, api.ReadConsistent} {
		if _, err := first.Endpoint().Ready(t.Context(), mode); err != nil {
			t.Fatalf("a read of mode %d of a leader: %v", mode, err)
		}
	}
	first.Cut()
	// Answers to heartbeats that were sent before may still confirm the lead of the first read.
	if _, err := first.Endpoint().Ready(t.Context(), api.ReadDefault); err != nil && !propose.NotLeader(err) {
		t.Fatal(err)
	}
	for _, mode := range []api.ReadMode{api.ReadDefault, api.ReadConsistent} {
		if _, err := first.Endpoint().Ready(t.Context(), mode); !propose.NotLeader(err) {
			t.Errorf("a read of mode %d of a leader that nobody reaches: %v", mode, err)
		}
	}
	if _, err := first.Endpoint().Ready(t.Context(), api.ReadStale); err != nil {
		t.Errorf("a stale read: %v", err)
	}
}

func TestServersHaveTheSameDigestAtTheSameIndex(t *testing.T) {
	c := testkit.NewServers(t, 3)
	namespace(t, c.Leader(), "one")
	behind := c.Follower()
	behind.Stop()
	namespace(t, c.Leader(), "two")
	behind.Start()
	digests := func() (indexes, digests map[any]bool) {
		indexes, digests = map[any]bool{}, map[any]bool{}
		for _, m := range c.All {
			d, err := m.Snapshots().Digest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			indexes[d.Index], digests[d.Digest] = true, true
		}
		return indexes, digests
	}
	testkit.Eventually(t, "all servers are at one index", func() bool {
		i, d := digests()
		if len(i) == 1 && len(d) != 1 {
			t.Fatalf("digests at index %v: %v", i, d)
		}
		return len(i) == 1
	})
}
