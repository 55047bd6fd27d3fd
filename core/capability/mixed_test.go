// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package capability_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/capability"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/leaks"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// member is a server that reads up to a level.
type member struct {
	*consensus.Node
	cfg   consensus.Config
	level int
	store *state.Store
	fatal chan error
}

// cluster is three servers over TCP with the real state machine.
type cluster struct {
	*testing.T
	members map[string]*member
}

func eventually(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	end := time.NewTimer(time.Minute)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("not in time: %s", claim)
		}
	}
}

func newCluster(t *testing.T, levels map[string]int) *cluster {
	c := &cluster{t, map[string]*member{}}
	var first []consensus.Server
	for _, id := range slices.Sorted(maps.Keys(levels)) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, consensus.Server{ID: id, Address: l.Addr().String(), Voter: true})
		c.members[id] = &member{level: levels[id], cfg: consensus.Config{NodeID: id, DataDir: t.TempDir(), Dev: true, Listener: l, HeartbeatTimeout: 2 * time.Second, TrailingLogs: 1}}
	}
	for _, m := range c.members {
		m.cfg.Bootstrap = first
		if err := c.open(m); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			c.stop(m)
		}
	})
	return c
}

// open starts a server; it does not lead if it is alone to be old.
func (c *cluster) open(m *member) (err error) {
	m.store, m.fatal = state.New(), make(chan error, 1)
	m.cfg.Machine = fsm.NewAt(m.level, m.store, hclog.NewNullLogger())
	m.cfg.Fatal = func(err error) { m.fatal <- err }
	if m.Node, err = consensus.Open(m.cfg); err != nil {
		m.Node = nil
	}
	return err
}

func (c *cluster) stop(m *member) {
	if m.Node == nil {
		return
	}
	if err := m.Close(); err != nil {
		c.Errorf("close %s: %v", m.cfg.NodeID, err)
	}
	m.Node = nil
}

// restart starts a server again at a level, on the same address.
func (c *cluster) restart(m *member, level int) error {
	c.Helper()
	c.stop(m)
	at := ""
	for _, s := range m.cfg.Bootstrap {
		if s.ID == m.cfg.NodeID {
			at = s.Address
		}
	}
	eventually(c.T, "the address is free", func() bool {
		l, err := net.Listen("tcp", at)
		m.cfg.Listener = l
		return err == nil
	})
	m.level = level
	return c.open(m)
}

// leader returns the server that leads, which is made to be another one than not.
func (c *cluster) leader(not string) *member {
	c.Helper()
	var out *member
	eventually(c.T, "another server than "+not+" leads", func() bool {
		for id, m := range c.members {
			switch {
			case m.Node == nil || !m.IsLeader() || m.Barrier(c.Context()) != nil:
			case id == not:
				_ = m.TransferLeadership(c.Context(), "") // it is tried until it succeeds
			default:
				out = m
				return true
			}
		}
		return false
	})
	return out
}

// capabilities is what the servers announce.
func (c *cluster) capabilities() ([]capability.Server, error) {
	var out []capability.Server
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		out = append(out, capability.Server{ID: id, Name: "server-" + id, Level: c.members[id].level})
	}
	return out, nil
}

// log is the leader's log behind its gate.
type log struct {
	*consensus.Node
	gate propose.Gate
}

func (l log) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	if err := l.gate.Check(entry); err != nil {
		return 0, nil, err
	}
	return l.Node.Propose(ctx, entry)
}

func (c *cluster) log(m *member) log {
	return log{m.Node, propose.Gate{
		Level: func() int { return m.store.View().Level() },
		Refuse: func(need int) error {
			servers, _ := c.capabilities()
			return capability.Refuse(need, m.store.View().Level(), servers)
		},
	}}
}

func (c *cluster) must(m *member, commands ...fsm.Command) {
	c.Helper()
	if _, err := propose.Bounded(c.Context(), c.log(m), commands...); err != nil {
		c.Fatal(err)
	}
}

func namespace(name string) fsm.Command {
	return &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: name}}}
}

// newer is two commands, of which one needs the newest level: reports in the layout that a
// cluster of that level has.
func (c *cluster) newer() []fsm.Command {
	c.Helper()
	s := state.New()
	if err := s.Update(1, func(tx *state.Tx) error { tx.BeginTerm("x", "t"); tx.RaiseLevel(fsm.Level, "v9"); return nil }); err != nil {
		c.Fatal(err)
	}
	return []fsm.Command{namespace("newer"), fsm.NewReportAllocs(s.View(), 1, nil, nil)}
}

func (c *cluster) raiser(m *member) *capability.Raiser {
	return &capability.Raiser{Store: m.store, Log: c.log(m), Servers: c.capabilities, Release: "v9", Logger: hclog.NewNullLogger()}
}

func saved(t *testing.T, m *member) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := m.store.View().Save(&out, fsm.NewCodec()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// equal waits until all servers have the same state.
func (c *cluster) equal() {
	c.Helper()
	eventually(c.T, "all servers have the same state", func() bool {
		return bytes.Equal(saved(c.T, c.members["a"]), saved(c.T, c.members["b"])) && bytes.Equal(saved(c.T, c.members["b"]), saved(c.T, c.members["c"]))
	})
}

func TestWhileOneServerIsOldNoNewerCommandIsWrittenAndTheRefusalNamesIt(t *testing.T) {
	c := newCluster(t, map[string]int{"a": fsm.Level, "b": fsm.Level, "c": fsm.Level - 1})
	lead := c.leader("c")
	c.must(lead, &fsm.BeginTerm{ClusterID: "x", TermID: "t"})
	if err := c.raiser(lead).Once(t.Context()); err != nil || lead.store.View().Level() != fsm.Level-1 {
		t.Fatalf("level %d, %v", lead.store.View().Level(), err)
	}
	end := lead.LastIndex()
	_, err := propose.Bounded(t.Context(), c.log(lead), c.newer()...)
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), fmt.Sprintf("upgrade server-c (c), which reads level %d", fsm.Level-1)) || strings.Contains(err.Error(), "server-a") {
		t.Errorf("got %v", err)
	}
	if lead.LastIndex() != end {
		t.Error("the refused command is in the log")
	}
	c.must(lead, namespace("old"))
	c.equal()

	if err := c.restart(c.members["c"], fsm.Level); err != nil { // the upgrade
		t.Fatal(err)
	}
	lead = c.leader("")
	if err := c.raiser(lead).Once(t.Context()); err != nil || lead.store.View().Level() != fsm.Level {
		t.Fatalf("level %d, %v", lead.store.View().Level(), err)
	}
	c.must(lead, c.newer()...)
	c.equal()
}

func TestAServerThatIsTooOldStopsAtTheEntryAlsoAfterARestartAndGoesOnAfterItsUpgrade(t *testing.T) {
	c := newCluster(t, map[string]int{"a": fsm.Level, "b": fsm.Level, "c": fsm.Level - 1})
	lead, old := c.leader("c"), c.members["c"]
	c.must(lead, &fsm.BeginTerm{ClusterID: "x", TermID: "t"}, namespace("before"))
	eventually(t, "the old server has it", func() bool { return old.store.View().NamespaceByName("before") != nil })
	before := saved(t, old)
	c.must(lead, &fsm.RaiseLevel{Level: fsm.Level, Release: "v9"}) // by a leader that was told wrong levels
	c.must(lead, c.newer()...)
	for range 2 {
		var unread *fsm.UnreadableError
		if err := <-old.fatal; !errors.As(err, &unread) || unread.Index == 0 || !strings.Contains(err.Error(), "run release v9") {
			t.Fatalf("it stopped with %v", err)
		}
		if !bytes.Equal(saved(t, old), before) {
			t.Error("its state is not that of before")
		}
		if err := c.restart(old, fsm.Level-1); err != nil {
			t.Fatal(err)
		}
	}
	<-old.fatal
	if err := c.restart(old, fsm.Level); err != nil {
		t.Fatal(err)
	}
	c.must(c.leader(""), namespace("after"))
	c.equal()
}

func TestAServerThatIsTooOldForTheLeadersSnapshotStopsAndGoesOnAfterItsUpgrade(t *testing.T) {
	c := newCluster(t, map[string]int{"a": fsm.Level, "b": fsm.Level, "c": fsm.Level - 1})
	lead, old := c.leader("c"), c.members["c"]
	c.must(lead, &fsm.BeginTerm{ClusterID: "x", TermID: "t"}, namespace("before"))
	eventually(t, "the old server has it", func() bool { return old.store.View().NamespaceByName("before") != nil })
	c.stop(old)
	c.must(lead, &fsm.RaiseLevel{Level: fsm.Level, Release: "v9"})
	for range 4 {
		c.must(lead, c.newer()...)
	}
	_, r, err := lead.TakeSnapshot(t.Context()) // the log behind it is cut
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.restart(old, fsm.Level-1); err != nil {
		t.Fatal(err)
	}
	var unread *fsm.UnreadableError
	if err := <-old.fatal; !errors.As(err, &unread) || !unread.Snapshot || !strings.Contains(err.Error(), "run release v9") {
		t.Fatalf("it stopped with %v", err)
	}
	if old.store.View().NamespaceByName("newer") != nil {
		t.Error("something of the snapshot was taken")
	}
	if err := c.restart(old, fsm.Level-1); !errors.As(err, &unread) {
		t.Fatalf("a restart of the old release: %v", err)
	}
	if err := c.restart(old, fsm.Level); err != nil {
		t.Fatal(err)
	}
	c.must(c.leader(""), namespace("after"))
	c.equal()
}
