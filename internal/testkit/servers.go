// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit/lifecycles"
)

// Servers is a cluster of several real servers in the test's process. Their raft
// speaks over TCP on 127.0.0.1, through a network that can be cut.
type Servers struct {
	All []*Member

	t    *testing.T
	wire wire
}

// Member is one server of Servers.
type Member struct {
	*server.Server
	// Address is the server's address. It stays the same across restarts.
	Address string
	Dir     string

	t       *testing.T
	wire    *wire
	adjust  func(*server.Config)
	running bool
	// URL is where the server's HTTP API is served, as it is for clients.
	URL  string
	http string // its address
	port *rpc.Port
	stop func() // ends what serves the ports
}

// NewServers starts n servers that are one cluster, and waits until one leads. Each has
// a data directory of its own. They end with the test. A function adjusts the
// configuration of each server, at each start. With n = 0 the test adds and starts them.
func NewServers(t *testing.T, n int, adjust ...func(*server.Config)) *Servers {
	t.Helper()
	s := &Servers{t: t}
	for range n {
		s.Add(adjust...)
	}
	if n == 0 {
		return s
	}
	var first []consensus.Server
	for _, m := range s.All {
		m.Start()
		first = append(first, consensus.Server{ID: m.ID(), Address: m.Address, Voter: true})
	}
	for _, m := range s.All {
		if err := m.Bootstrap(first); err != nil {
			t.Fatal(err)
		}
	}
	s.Leader()
	s.awaitKeys()
	return s
}

// awaitKeys waits until every server has received the root keys: variables are readable on
// all of them.
func (s *Servers) awaitKeys() {
	s.t.Helper()
	Eventually(s.t, "every server has received the root keys", func() bool {
		for _, m := range s.All {
			view := m.Endpoint().Store.View()
			key, own := view.ActiveRootKey(), view.ServerKeyByID(m.ID())
			if key == nil || own == nil || key.WrapFor(own.Public) == nil {
				return false
			}
		}
		return true
	})
}

// Add adds a server that is neither started nor a member of the cluster.
func (s *Servers) Add(adjust ...func(*server.Config)) *Member {
	s.t.Helper()
	m := &Member{t: s.t, wire: &s.wire, Dir: s.t.TempDir(), Address: fmt.Sprintf("127.0.0.1:%d", FreePorts(s.t, 1)[0])}
	m.http = fmt.Sprintf("127.0.0.1:%d", FreePorts(s.t, 1)[0])
	m.URL = "http://" + m.http
	m.adjust = func(cfg *server.Config) {
		for _, f := range adjust {
			f(cfg)
		}
	}
	s.All = append(s.All, m)
	s.t.Cleanup(m.Stop)
	return m
}

// Adjust changes the configuration of a server from its next start on.
func (m *Member) Adjust(f func(*server.Config)) {
	before := m.adjust
	m.adjust = func(cfg *server.Config) { before(cfg); f(cfg) }
}

// Leader waits until one of the servers that run and can be reached leads and has begun
// its term, and returns it.
func (s *Servers) Leader() *Member {
	s.t.Helper()
	var leader *Member
	Eventually(s.t, "a server leads", func() bool {
		for _, m := range s.All {
			if m.running && !s.wire.isCut(m.Address) && m.Raft().IsLeader() && m.begun() {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}

// begun reports whether the state names this server's term.
func (m *Member) begun() bool {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Second)
	defer cancel()
	return m.Raft().VerifyLeader(ctx) == nil && m.Leads()
}

// Follower returns a running server that is not the leader.
func (s *Servers) Follower() *Member {
	s.t.Helper()
	leader := s.Leader()
	for _, m := range s.All {
		if m.running && m != leader {
			return m
		}
	}
	s.t.Fatal("no server follows")
	return nil
}

// Start starts a server, or starts it again after Stop.
func (m *Member) Start() {
	m.t.Helper()
	if m.running {
		return
	}
	l, err := net.Listen("tcp", m.Address)
	if err != nil {
		m.t.Fatal(err)
	}
	port := rpc.NewPort(m.wire.listen(m.Address, l), rpc.PortConfig{Logger: hclog.NewNullLogger()})
	cfg := server.Config{
		DataDir: m.Dir, Dev: true, Region: "global", Datacenter: "dc1", Address: m.Address, Workers: 1,
		GC: gc.DefaultThresholds(), LocalNode: func() string { return "" }, Logger: hclog.NewNullLogger(),
		Announced: func(string) (string, int) { return "", fsm.Level },
		Raft:      server.RaftConfig{Listener: port.Raft(), Dial: m.wire.dialer(m.Address), HeartbeatTimeout: leaderless}, PeerDial: m.wire.peerDialer(m.Address),
	}
	m.adjust(&cfg)
	if m.Server, err = server.New(cfg); err != nil {
		m.t.Fatal(err)
	}
	m.running = true
	m.Server.Start()
	m.serve(port)
	lifecycles.Check(m.t, m.Endpoint().Store)
}

// leaderless is how long servers wait for their leader. Tests run beside others, with the race detector,
// on machines on which a goroutine may wait for a second.
const leaderless = 2 * time.Second

// Stop stops a server. It does not leave the cluster.
func (m *Member) Stop() {
	m.t.Helper()
	if !m.running {
		return
	}
	m.running = false
	m.stop()
	if err := errors.Join(m.Close(), m.port.Close()); err != nil {
		m.t.Errorf("close the server %s: %v", m.Address, err)
	}
}

// serve serves the rpc port and the HTTP API until stop.
func (m *Member) serve(port *rpc.Port) {
	m.t.Helper()
	web, err := net.Listen("tcp", m.http)
	if err != nil {
		m.t.Fatal(err)
	}
	sessions := rpc.NewServer(m.Sessions(), nil, hclog.NewNullLogger())
	m.Peers().Serve(sessions)
	public := api.New(&backend{Endpoint: m.Endpoint(), server: m.Server}, hclog.NewNullLogger(), api.Config{Leader: m.Peers(), ConnsPerClient: -1})
	inner := sessions.HTTP()
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := sessions.Serve(port.GRPC()); err != nil {
			m.t.Error(err)
		}
	})
	work.Go(func() {
		if err := public.Serve(ctx, web, inner); err != nil {
			m.t.Error(err)
		}
	})
	m.port, m.stop = port, func() {
		cancel()
		sessions.Close()
		work.Wait()
	}
}

// Kill stops a server without a word to the others: it is cut off first.
func (m *Member) Kill() {
	m.t.Helper()
	m.Cut()
	m.Stop()
	m.Heal()
}

// Cut separates a server from all others until Heal.
func (m *Member) Cut() { m.wire.set(m.Address, true) }

// Heal ends Cut.
func (m *Member) Heal() { m.wire.set(m.Address, false) }
