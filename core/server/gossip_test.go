// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/joining"
	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
)

// gossiping adds a server that finds others by gossip. at is its gossip address, joins
// those of others.
func gossiping(t *testing.T, c *testkit.Servers, name string, expect int, at string, joins ...string) *testkit.Member {
	t.Helper()
	return c.Add(func(cfg *server.Config) {
		cfg.Raft.Alone = expect == 1
		cfg.Autopilot = model.DefaultAutopilot()
		cfg.Autopilot.ServerStabilizationTime, cfg.Autopilot.LastContactThreshold = time.Second, 2*time.Second
		cfg.Gossip = &joining.Gossip{
			Config:    membership.Config{Name: name, Version: "0.0.0", Listen: at, Expect: expect, Fast: true},
			RetryJoin: joins, RetryInterval: 100 * time.Millisecond,
		}
	})
}

// ports returns addresses of 127.0.0.1 for gossip.
func ports(t *testing.T, n int) (out []string) {
	t.Helper()
	for _, port := range testkit.FreePorts(t, n) {
		out = append(out, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return out
}

func voters(m *testkit.Member) (n int) {
	servers, _, err := m.Raft().Configuration()
	if err != nil {
		return 0
	}
	for _, s := range servers {
		if s.Voter {
			n++
		}
	}
	return n
}

func TestServersThatFindEachOtherAreOneCluster(t *testing.T) {
	c, at := testkit.NewServers(t, 0), ports(t, 4)
	for i := range 3 {
		m := gossiping(t, c, string(rune('a'+i)), 3, at[i], at[:3]...)
		m.Start()
		if i < 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			if err := m.WaitLeader(ctx); err == nil {
				t.Fatalf("%d of 3 servers have a leader", i+1)
			}
			cancel()
		}
	}
	leader := c.Leader()
	namespace(t, leader, "one")
	everywhere(t, "one", c.All...)
	if n := voters(leader); n != 3 {
		t.Errorf("%d voters", n)
	}

	late := gossiping(t, c, "d", 3, at[3], at[0])
	late.Start()
	everywhere(t, "one", late)
	testkit.Eventually(t, "the server that has joined votes", func() bool { return voters(leader) == 4 })

	var follower *testkit.Member
	for _, m := range c.All[:3] {
		if m != leader {
			follower = m
		}
	}
	follower.Kill()
	testkit.Eventually(t, "a dead server is removed, as enough are left", func() bool { return voters(leader) == 3 })
	follower.Start()
	testkit.Eventually(t, "it comes back and votes", func() bool { return voters(leader) == 4 })
	namespace(t, c.Leader(), "two")
	everywhere(t, "two", c.All...)
}

func TestALeaderThatLeavesHandsOverAndIsNoMember(t *testing.T) {
	c, at := testkit.NewServers(t, 0), ports(t, 3)
	for i := range 3 {
		gossiping(t, c, string(rune('a'+i)), 3, at[i], at...).Start()
	}
	leader := c.Leader()
	testkit.Eventually(t, "all are there", func() bool { return len(leader.Members().Members()) == 3 && voters(leader) == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := leader.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	leader.Stop()
	next := c.Leader()
	testkit.Eventually(t, "two vote", func() bool { return voters(next) == 2 })
	leader.Start() // it joins again
	testkit.Eventually(t, "three vote", func() bool { return voters(next) == 3 })
}

func TestAServerAloneGrowsIntoACluster(t *testing.T) {
	const service = "_drover._tcp.example.com"
	dns := testkit.NewDNS(t)
	c, at := testkit.NewServers(t, 0), ports(t, 2)
	first := gossiping(t, c, "a", 1, at[0])
	first.Start()
	namespace(t, c.Leader(), "before")
	second := gossiping(t, c, "b", 0, at[1], service)
	second.Start() // nobody is behind the name yet, so it tries again
	dns.Set(service, strings.Replace(at[0], "127.0.0.1", "localhost", 1))
	everywhere(t, "before", second)
	testkit.Eventually(t, "both vote", func() bool { return voters(first) == 2 })

	at = ports(t, 1)
	foreign := gossiping(t, c, "c", 1, at[0])
	foreign.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := foreign.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the other cluster knows who it is", func() bool { return foreign.Members().Self().Cluster != "" })
	self := first.Members().Self()
	if _, err := foreign.Join(t.Context(), []string{fmt.Sprintf("%s:%d", self.Address, self.Port)}); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("two clusters were joined: %v", err)
	}
	if n := len(first.Members().Members()); n != 2 {
		t.Errorf("%d servers", n)
	}
}

func TestServersThatExpectDifferentNumbersDoNotBegin(t *testing.T) {
	c, at := testkit.NewServers(t, 0), ports(t, 2)
	for i := range 2 {
		gossiping(t, c, string(rune('a'+i)), 2+i, at[i], at[0]).Start()
	}
	testkit.Eventually(t, "they see each other", func() bool { return len(c.All[0].Members().Members()) == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := c.All[0].WaitLeader(ctx); err == nil {
		t.Error("servers that expect 2 and 3 have elected a leader")
	}
}

// TestAServerThatWasAloneWithoutAnAddressGetsOne: earlier releases wrote no address to
// the log.
func TestAServerThatWasAloneWithoutAnAddressGetsOne(t *testing.T) {
	c, at := testkit.NewServers(t, 0), ports(t, 2)
	first := gossiping(t, c, "a", 1, at[0])
	inDir(t, first.Dir, func(t *testing.T, c *testkit.Cluster) {
		c.Must("PUT", "/v1/namespace", map[string]any{"Name": "before"}, nil)
	})
	first.Start()
	testkit.Eventually(t, "raft knows its address", func() bool {
		servers, _, err := first.Raft().Configuration()
		return err == nil && len(servers) == 1 && servers[0].Address == first.Address
	})
	second := gossiping(t, c, "b", 0, at[1], at[0])
	second.Start()
	everywhere(t, "before", first, second)
}
