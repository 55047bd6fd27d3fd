// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Gossip says how a server finds the others.
type Gossip struct {
	// Config is that of core/membership; New sets the fields that say who the server
	// is.
	membership.Config
	// RetryJoin are addresses of other servers, which are tried until one answers:
	// RetryMax times (0: without end), RetryInterval apart.
	RetryJoin     []string
	RetryMax      int
	RetryInterval time.Duration
}

const (
	// tagLog says whether a server has a log: logKept from an earlier process, or
	// logNew because it has just begun a cluster.
	tagLog = "log"
	// tagLevel is the newest capability level that a server reads.
	tagLevel = "level"
	logKept  = "1"
	logNew   = "new"
)

const (
	// defaultRetryInterval is the pause between two tries to join.
	defaultRetryInterval = 30 * time.Second
	// settled is for how long the servers of a new cluster must not have changed, so
	// that all of them see the same.
	settled = 500 * time.Millisecond
	// retellEvery is how often a server looks at whether its tags are true.
	retellEvery = time.Second
	// leaveWait is how long a server that leaves waits until it is no member.
	leaveWait = 5 * time.Second
)

// startGossip starts to gossip, if the configuration says so.
func (s *Server) startGossip() error {
	g := s.cfg.Gossip
	if g == nil {
		return nil
	}
	conf := g.Config
	conf.ID, conf.Region, conf.Datacenter, conf.RPC, conf.Logger = s.who.id, s.cfg.Region, s.cfg.Datacenter, s.cfg.Address, s.cfg.Logger
	if s.cfg.DataDir != "" {
		conf.Dir = filepath.Join(s.cfg.DataDir, "serf")
	}
	conf.Answer = s.pilot.Answer
	conf.Tags = s.cfg.Role.Tags()
	conf.Tags[tagLevel] = strconv.Itoa(s.cfg.Level)
	if s.hasLog() {
		conf.Tags[tagLog] = logKept
	}
	m, err := membership.Start(conf)
	if err != nil {
		return err
	}
	s.members.Store(m)
	s.pilot.Find(m)
	s.tell(m)
	return nil
}

// Members returns the gossip of the servers; nil if this server does not gossip.
func (s *Server) Members() *membership.Membership { return s.members.Load() }

// lookup returns the address at which gossip has found a server.
func (s *Server) lookup(id string) (string, bool) {
	m := s.members.Load()
	if m == nil {
		return "", false
	}
	for _, f := range m.Members() {
		if f.ID == id && f.Status == membership.Alive {
			return f.RPC, true
		}
	}
	return "", false
}

// announced returns the name of a server and the capability level that it reads; 0 if
// that is unknown.
func (s *Server) announced(id string) (name string, level int) {
	m := s.members.Load()
	if m == nil {
		return "", 0
	}
	for _, f := range m.Members() {
		if f.ID != id {
			continue
		}
		if name == "" || f.Status == membership.Alive {
			name = f.Name
			level, _ = strconv.Atoi(f.Tags[tagLevel]) // a server without it is too old to announce one
		}
	}
	return name, level
}

// Addresses returns the rpc addresses of the servers that are alive, this one first.
func (s *Server) Addresses() []string {
	out := []string{s.cfg.Address}
	m := s.members.Load()
	if m == nil {
		return out
	}
	for _, f := range m.Members() {
		if f.Status == membership.Alive && f.ID != s.who.id {
			out = append(out, f.RPC)
		}
	}
	return out
}

// Alone reports whether this server is the only member of its cluster.
func (s *Server) Alone() bool {
	servers, _, err := s.raft.Configuration()
	return err == nil && len(servers) == 1 && servers[0].ID == s.who.id
}

// hasLog reports whether this server is, or was, a member of a cluster.
func (s *Server) hasLog() bool {
	servers, _, err := s.raft.Configuration()
	return err == nil && len(servers) > 0
}

// gossip runs what a server does because of its gossip until ctx ends.
func (s *Server) gossip(ctx context.Context) {
	m := s.members.Load()
	if m == nil {
		return
	}
	s.work.Go(func() {
		select {
		case err := <-m.Failed():
			s.fail(err)
		case <-ctx.Done():
		}
	})
	s.work.Go(func() { s.retryJoin(ctx) })
	s.work.Go(func() { s.awaitOthers(ctx, m) })
	tick := time.NewTicker(retellEvery)
	defer tick.Stop()
	for {
		s.tell(m)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tell keeps the tags of this server true.
func (s *Server) tell(m *membership.Membership) {
	if id := s.store.View().Cluster().At(0).ClusterID; id != "" {
		if err := m.SetCluster(id); err != nil {
			s.cfg.Logger.Warn("the other servers do not hear the id of the cluster", "error", err)
		}
	}
	if s.hasLog() && m.Self().Tags[tagLog] == "" {
		if err := m.SetTag(tagLog, logKept); err != nil {
			s.cfg.Logger.Warn("the other servers do not hear that this one has a log", "error", err)
		}
	}
}

// Join contacts other servers. It returns how many have answered.
func (s *Server) Join(addresses []string) (int, error) {
	m := s.members.Load()
	if m == nil {
		return 0, errdefs.FailedPreconditionf("this server is on its own: a development agent does not gossip")
	}
	n, err := m.Join(addresses)
	if err != nil {
		return n, err
	}
	if twin := m.Twin(); twin != "" {
		err := errdefs.FailedPreconditionf("the server %s has the id %s too: the data directory of one was copied to the other; stop this one, empty its data directory and start it again", twin, s.who.id)
		s.fail(err)
		return n, err
	}
	return n, nil
}

// retryJoin joins the servers of the configuration.
func (s *Server) retryJoin(ctx context.Context) {
	g := s.cfg.Gossip
	if len(g.RetryJoin) == 0 {
		return
	}
	pause := g.RetryInterval
	if pause == 0 {
		pause = defaultRetryInterval
	}
	for try := 1; ; try++ {
		_, err := s.Join(g.RetryJoin)
		if err == nil || ctx.Err() != nil {
			return
		}
		if g.RetryMax > 0 && try >= g.RetryMax {
			s.fail(fmt.Errorf("no server of retry_join could be joined in %d tries: %w", try, err))
			return
		}
		s.cfg.Logger.Warn("no server of retry_join could be joined; trying again", "in", pause, "error", err)
		late := time.NewTimer(pause)
		select {
		case <-late.C:
		case <-ctx.Done():
			late.Stop()
			return
		}
	}
}

// awaitOthers begins a new cluster together with the servers that expect as many as this
// one. A server that has a log, or sees one that has, never begins one: it waits until
// a leader adds it.
func (s *Server) awaitOthers(ctx context.Context, m *membership.Membership) {
	expect := s.cfg.Gossip.Expect
	if expect < 2 || s.cfg.Role.Replica {
		return
	}
	said := ""
	for !s.hasLog() {
		changed := m.Changed()
		first, why := founders(m.Members(), expect)
		if why != "" && why != said {
			s.cfg.Logger.Warn("no new cluster begins yet", "because", why)
			said = why
		}
		var ready <-chan time.Time
		late := time.NewTimer(settled)
		if first != nil {
			ready = late.C
		}
		select {
		case <-ready:
			s.found(m, first)
		case <-changed:
		case <-ctx.Done():
			late.Stop()
			return
		}
		late.Stop()
	}
}

// found begins a new cluster.
func (s *Server) found(m *membership.Membership, first []consensus.Server) {
	if err := m.SetTag(tagLog, logNew); err != nil {
		s.cfg.Logger.Warn("the other servers do not hear that this one begins a cluster", "error", err)
	}
	if err := s.Bootstrap(first); err != nil {
		s.cfg.Logger.Error("this server could not begin a new cluster", "error", err)
		return
	}
	s.cfg.Logger.Info("a new cluster begins", "servers", len(first))
}

// founders returns the first members of a new cluster, sorted by id, or why it cannot
// begin: one of both is empty. Every server that sees the same members returns the same.
func founders(members []membership.Member, expect int) (first []consensus.Server, why string) {
	ids := map[string]bool{}
	for _, m := range members {
		switch {
		case m.Tags[tagLog] == logKept:
			return nil, fmt.Sprintf("%s has the log of a cluster: that cluster's leader adds this server", m.Name)
		case m.Status != membership.Alive || m.Tags[pilot.TagReplica] != "":
			continue
		case m.Expect != expect:
			return nil, fmt.Sprintf("%s expects %d servers, and this one %d: set the same bootstrap_expect on all of them", m.Name, m.Expect, expect)
		case ids[m.ID]:
			return nil, fmt.Sprintf("two servers have the id %s: the data directory of one was copied", m.ID)
		}
		ids[m.ID] = true
		first = append(first, consensus.Server{ID: m.ID, Address: m.RPC, Voter: true})
	}
	slices.SortFunc(first, func(a, b consensus.Server) int { return strings.Compare(a.ID, b.ID) })
	switch {
	case len(first) < expect:
		return nil, fmt.Sprintf("%d of %d servers are there", len(first), expect)
	case len(first) > expect:
		return nil, fmt.Sprintf("%d servers are there, and bootstrap_expect is %d: stop those that are too many; they join when the cluster runs", len(first), expect)
	}
	return first, ""
}

// Leave takes this server out of its cluster: it hands the lead over, tells the others,
// and waits until it is no member any more, for a while. Close follows. A server alone
// has nothing to leave.
func (s *Server) Leave(ctx context.Context) error {
	m := s.members.Load()
	if m == nil {
		return nil
	}
	servers, _, err := s.raft.Configuration()
	if err != nil {
		return err
	}
	if len(servers) < 2 {
		return m.Leave()
	}
	if err := s.giveKeys(ctx); err != nil {
		return err
	}
	if s.raft.IsLeader() {
		// To a server that keeps up: the most up-to-date one of raft may be dead.
		if err := s.raft.TransferLeadership(ctx, s.pilot.Successor(nil)); err != nil {
			return fmt.Errorf("hand the lead over before this server leaves: %w", err)
		}
	}
	if err := m.Leave(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	tick := time.NewTicker(lookForMembership)
	defer tick.Stop()
	for {
		if member, err := s.who.member(s.raft, true); err != nil || !member {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // the others remove it without its knowledge
		}
	}
}
