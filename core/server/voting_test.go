// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
)

// playing adds a server that finds others by gossip and has a role.
func playing(t *testing.T, c *testkit.Servers, name string, expect int, role pilot.Role, at string, joins ...string) *testkit.Member {
	t.Helper()
	m := gossiping(t, c, name, expect, at, joins...)
	m.Adjust(func(cfg *server.Config) { cfg.Role = role })
	return m
}

// votes reports whether a server votes, as another one sees it.
func votes(by, of *testkit.Member) bool {
	servers, _, err := by.Raft().Configuration()
	if err != nil {
		return false
	}
	for _, s := range servers {
		if s.ID == of.ID() {
			return s.Voter
		}
	}
	return false
}

func TestOneServerOfAZoneVotesAndItsStandbyTakesOver(t *testing.T) {
	c, at := testkit.NewServers(t, 0), ports(t, 5)
	for i, zone := range []string{"x", "y", "z"} {
		playing(t, c, string(rune('a'+i)), 3, pilot.Role{Zone: zone}, at[i], at[:3]...).Start()
	}
	leader := c.Leader()
	setAutopilot(t, leader, `{"CleanupDeadServers":true,"EnableRedundancyZones":true,"LastContactThreshold":"5s","ServerStabilizationTime":"1s"}`)
	replica := playing(t, c, "r", 3, pilot.Role{Replica: true}, at[4], at[0])
	replica.Start()
	var failing *testkit.Member
	zone := ""
	for i, m := range c.All[:3] {
		if m != leader {
			failing, zone = m, string("xyz"[i])
		}
	}
	standby := playing(t, c, "s", 3, pilot.Role{Zone: zone}, at[3], at[0], at[1], at[2])
	standby.Start()
	testkit.Eventually(t, "the standby is healthy for longer than a server must be to vote", func() bool {
		leader = c.Leader() // on a loaded machine it changes
		h, leads := leader.Pilot().Health()
		since := h.StableSince[standby.ID()]
		return leads && !since.IsZero() && h.Now.Sub(since) > 2*h.ServerStabilizationTime && !h.StableSince[replica.ID()].IsZero()
	})
	if votes(leader, standby) || votes(leader, replica) {
		t.Errorf("the standby votes: %v, the replica votes: %v", votes(leader, standby), votes(leader, replica))
	}
	if can, err := leader.Pilot().CanLead(); err != nil || !slices.Contains(can, failing.ID()) || len(can) != 2 {
		t.Errorf("%v could lead: %v", can, err)
	}
	failing.Kill()
	testkit.Eventually(t, "nothing is handed over to a dead voter", func() bool {
		leader = c.Leader()
		can, err := leader.Pilot().CanLead()
		return err == nil && !slices.Contains(can, failing.ID()) && leader.Pilot().Successor(nil) != failing.ID()
	})
	testkit.Eventually(t, "the standby votes for its zone", func() bool { return votes(c.Leader(), standby) })
	testkit.Eventually(t, "the dead server is gone", func() bool {
		leader = c.Leader()
		return voters(leader) == 3 && !votes(leader, failing)
	})
	failing.Start()
	everywhere(t, "default", failing)
	testkit.Eventually(t, "it comes back and stands by", func() bool {
		leader = c.Leader() // on a loaded machine it changes
		h, leads := leader.Pilot().Health()
		since := h.StableSince[failing.ID()]
		return leads && !since.IsZero() && h.Now.Sub(since) > 2*h.ServerStabilizationTime
	})
	if votes(leader, failing) || votes(leader, replica) || voters(leader) != 3 {
		t.Errorf("%d voters", voters(leader))
	}
}

func TestServersOfANewerVersionTakeOverWhenTheyAreEnough(t *testing.T) {
	c, at := testkit.NewServers(t, 0), ports(t, 6)
	for i := range 3 {
		playing(t, c, string(rune('a'+i)), 3, pilot.Role{Upgrade: "1.0.0"}, at[i], at[:3]...).Start()
	}
	leader := c.Leader()
	setAutopilot(t, leader, `{"CleanupDeadServers":true,"EnableCustomUpgrades":true,"LastContactThreshold":"5s","ServerStabilizationTime":"1s"}`)
	for i := range 2 {
		playing(t, c, string(rune('d'+i)), 3, pilot.Role{Upgrade: "1.1.0"}, at[3+i], at[0]).Start()
	}
	testkit.Eventually(t, "two newer servers are stable", func() bool {
		leader = c.Leader() // on a loaded machine it changes
		h, _ := leader.Pilot().Health()
		for _, m := range c.All[3:] {
			if since := h.StableSince[m.ID()]; since.IsZero() || h.Now.Sub(since) < 2*h.ServerStabilizationTime {
				return false
			}
		}
		return true
	})
	// On a loaded machine an older server may seem dead for a while, and a newer one votes in
	// its place; the newer ones must not be the majority.
	if newer := votes(leader, c.All[3]) && votes(leader, c.All[4]); newer || voters(leader) > 4 {
		t.Errorf("%d voters, while two newer servers wait; both vote: %v", voters(leader), newer)
	}
	playing(t, c, "f", 3, pilot.Role{Upgrade: "1.1.0"}, at[5], at[0]).Start()
	testkit.Eventually(t, "three newer servers have taken over, and one of them leads", func() bool {
		n, leads := 0, false
		for _, m := range c.All[3:] {
			leads = leads || m.Leads()
			if votes(m, m) {
				n++
			}
		}
		return leads && n == 3 && voters(c.All[3]) == 3
	})
	namespace(t, c.Leader(), "after")
	everywhere(t, "after", c.All...)
}

// setAutopilot sets the configuration of autopilot over the API.
func setAutopilot(t *testing.T, through *testkit.Member, body string) {
	t.Helper()
	testkit.Eventually(t, "autopilot is configured", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, through.URL+"/v1/operator/autopilot/configuration", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
}
