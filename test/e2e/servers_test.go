// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// servers is a cluster of servers, each on a machine of its own.
type servers struct {
	t       *testing.T
	network *harness.Network
	key     string   // of the gossip
	first   []string // the addresses of those that begin the cluster
	all     []*agent
}

func newServers(t *testing.T) *servers {
	t.Helper()
	return newServersWith(t, func(*agent) {})
}

// newServersWith prepares each machine before it starts.
func newServersWith(t *testing.T, prepare func(*agent)) *servers {
	t.Helper()
	return newServersOf(t, 3, prepare, "", "", "")
}

// newServersOf starts servers, one for each text, of which the first ones begin the cluster.
// A text is more of the server's configuration.
func newServersOf(t *testing.T, first int, prepare func(*agent), texts ...string) *servers {
	t.Helper()
	harness.TakeSlot(t)
	s := &servers{t: t, network: harness.NewNetwork(t)}
	var key [32]byte
	rand.Read(key[:])
	s.key = base64.StdEncoding.EncodeToString(key[:])
	for i := range first {
		s.first = append(s.first, fmt.Sprintf("%s%d", s.network.Subnet, i+2))
	}
	for i, text := range texts {
		if i < first {
			text += fmt.Sprintf("\n  bootstrap_expect = %d", first)
		}
		s.all = append(s.all, &agent{s.network.Machine(fmt.Sprintf("s%d", i+1), harness.Joining(s.key, text, s.first...))})
	}
	for _, a := range s.all {
		prepare(a)
		a.Launch()
	}
	return s
}

// leader waits until all servers that run name the same leader, and returns it.
func (s *servers) leader(running ...*agent) *agent {
	s.t.Helper()
	var leader *agent
	running[0].Eventually(harness.Patience, "the servers name one leader", func() bool {
		names := map[string]bool{}
		for _, a := range running {
			address, err := a.Leader(a.Context())
			if err != nil {
				return false
			}
			names[address] = true
		}
		for _, a := range running {
			if len(names) == 1 && names[a.RPCAddress()] {
				leader = a
				return true
			}
		}
		return false
	})
	return leader
}

func (s *servers) without(gone *agent) (out []*agent) {
	for _, a := range s.all {
		if a != gone {
			out = append(out, a)
		}
	}
	return out
}

// write writes a namespace through a server, and again until it is acknowledged.
func (s *servers) write(through *agent, name string) {
	s.t.Helper()
	through.Eventually(harness.Patience, "the write of "+name+" is acknowledged", func() bool {
		return through.ApplyNamespace(through.Context(), &model.Namespace{Name: name}) == nil
	})
}

// same waits until all servers have exactly these namespaces, and the same of each, in
// their own state.
func (s *servers) same(want ...string) {
	s.t.Helper()
	want = append(want, model.DefaultNamespace)
	slices.Sort(want)
	for _, a := range s.all {
		a.Eventually(harness.Patience, "a server has "+strings.Join(want, " "), func() bool {
			list, _, err := a.Namespaces(a.Context(), &client.Query{Stale: true})
			var got []string
			for _, n := range list {
				got = append(got, n.Name)
			}
			slices.Sort(got)
			return err == nil && slices.Equal(got, want)
		})
	}
	_, first := s.all[0].HTTPGet("/v1/namespaces?stale")
	for _, a := range s.all[1:] {
		if _, other := a.HTTPGet("/v1/namespaces?stale"); other != first {
			s.t.Errorf("states differ:\n%s\n%s", first, other)
		}
	}
}

func (s *servers) voters(through *agent, n int) {
	s.t.Helper()
	through.Eventually(harness.Patience, fmt.Sprintf("%d servers vote", n), func() bool {
		c, err := through.RaftConfiguration(through.Context(), nil)
		if err != nil {
			return false
		}
		voters := 0
		for _, x := range c.Servers {
			if x.Voter {
				voters++
			}
		}
		return voters == n
	})
}

func TestThreeServersKeepWhatTheyHaveAcknowledged(t *testing.T) {
	s := newServers(t)
	leader := s.leader(s.all...)
	s.write(s.without(leader)[0], "one") // through a follower
	s.same("one")

	killed := leader
	killed.Kill()
	rest := s.without(killed)
	leader = s.leader(rest...)
	s.write(leader, "two")
	rest[0].Eventually(harness.Patience, "the killed server is seen as failed", func() bool {
		m, err := rest[0].Members(rest[0].Context())
		if err != nil {
			return false
		}
		for _, x := range m.Members {
			if x.Status == "failed" {
				return true
			}
		}
		return false
	})
	killed.Launch()
	s.same("one", "two")
	s.voters(leader, 3)

	for _, a := range s.all { // a power cut
		a.Kill()
	}
	for _, a := range s.all {
		a.Launch()
	}
	leader = s.leader(s.all...)
	s.write(leader, "three")
	s.same("one", "two", "three")
}

func TestAServerThatLeavesIsNoMemberAndMayComeBack(t *testing.T) {
	s := newServers(t)
	leader := s.leader(s.all...)
	s.voters(leader, 3)
	if err := leader.Cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-leader.Done:
	case <-time.After(harness.Patience):
		t.Fatal("the server does not end")
	}
	rest := s.without(leader)
	s.leader(rest...)
	s.voters(rest[0], 2)
	s.write(rest[0], "one")
	leader.Launch()
	s.voters(rest[0], 3)
	s.same("one")

	// What is on the gossip and rpc ports besides servers and nodes harms nobody.
	for _, port := range []string{"4647", "4648"} {
		address := strings.Replace(rest[0].RPCAddress(), ":4647", ":"+port, 1)
		if err := garbage(address); err != nil {
			t.Errorf("garbage to %s: %v", address, err)
		}
	}
	s.write(rest[1], "two")
	s.same("one", "two")
	if log, err := os.ReadFile(filepath.Join(rest[0].Dir, "agent.log")); err != nil || strings.Count(string(log), "connection to the rpc port was refused") > 5 {
		t.Errorf("the log is full of garbage: %v", err)
	}
}

// TestOneServerOfEachZoneVotesAndAReadReplicaNever: three zones, a standby of one of them,
// and a read replica.
func TestOneServerOfEachZoneVotesAndAReadReplicaNever(t *testing.T) {
	s := newServersOf(t, 3, func(*agent) {}, `redundancy_zone = "x"`, `redundancy_zone = "y"`, `redundancy_zone = "z"`)
	leader := s.leader(s.all...)
	leader.Eventually(harness.Patience, "a new cluster has the capability level of zones", func() bool {
		_, code := leader.CLI("operator", "autopilot", "set-config", "-enable-redundancy-zones", "-server-stabilization-time=2s", "-last-contact-threshold=2s")
		return code == 0
	})
	out := s.all[0].Must("operator", "autopilot", "get-config") // of any server
	for _, want := range []string{"EnableRedundancyZones   = true", "ServerStabilizationTime = 2s", "LastContactThreshold    = 2s", "CleanupDeadServers      = true"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, code := leader.CLI("operator", "autopilot", "set-config", "-check-index=1", "-min-quorum=5"); code == 0 || !strings.Contains(out, "the configuration has changed since index 1") {
		t.Errorf("a change with an old index: %d %s", code, out)
	}
	var failing *agent
	zone, name := "", ""
	for i, a := range s.all {
		if a != leader {
			failing, zone, name = a, string("xyz"[i]), fmt.Sprintf("s%d", i+1)
		}
	}
	join := func(name, role string) *agent {
		a := &agent{s.network.Machine(name, harness.Joining(s.key, role, s.first...))}
		a.Launch()
		return a
	}
	standby, replica := join("standby", fmt.Sprintf("redundancy_zone = %q", zone)), join("replica", "non_voting_server = true")
	settled := func(names ...string) bool {
		h, err := leader.AutopilotHealth(leader.Context())
		if err != nil {
			return false
		}
		n := 0
		for _, x := range h.Servers {
			for _, name := range names {
				if x.Name == name+".global" && x.Healthy && time.Since(x.StableSince) > 5*time.Second {
					n++
				}
			}
		}
		return n == len(names)
	}
	leader.Eventually(harness.Patience, "the standby and the replica are healthy for long enough to vote", func() bool { return settled("standby", "replica") })
	s.voters(leader, 3)
	s.voting(leader, false, standby, replica)
	s.voting(leader, true, s.all...)

	failing.Kill()
	leader.Eventually(harness.Patience, "the standby votes in place of the failed server, which is removed", func() bool {
		c, err := leader.RaftConfiguration(leader.Context(), nil)
		return err == nil && len(c.Servers) == 4
	})
	s.voting(leader, true, standby)
	s.voting(leader, false, replica)
	s.write(replica, "through-a-replica")
	failing.Launch()
	leader.Eventually(harness.Patience, "the failed server is back and healthy", func() bool { return settled(name) })
	s.voting(leader, false, failing, replica)
	s.all = append(s.all, standby, replica)
	s.same("through-a-replica")
	if out := leader.Must("operator", "autopilot", "health"); !strings.Contains(out, "Healthy          = true") || !strings.Contains(out, "FailureTolerance = 1") {
		t.Error(out)
	}
}

// voting checks who votes, as a server says.
func (s *servers) voting(through *agent, want bool, of ...*agent) {
	s.t.Helper()
	through.Eventually(harness.Patience, fmt.Sprintf("of %d servers it is true that they vote: %v", len(of), want), func() bool {
		c, err := through.RaftConfiguration(through.Context(), nil)
		if err != nil {
			return false
		}
		n := 0
		for _, x := range c.Servers {
			for _, a := range of {
				if x.Address == a.RPCAddress() && x.Voter == want {
					n++
				}
			}
		}
		return n == len(of)
	})
}

// garbage sends random bytes over several connections.
func garbage(address string) error {
	for range 20 {
		c, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			return err
		}
		var b [512]byte
		rand.Read(b[:])
		_, _ = c.Write(b[:]) // the server may have closed it
		_ = c.Close()
	}
	return nil
}
