// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

// begin makes a server that is to be alone the first member of its cluster, and writes
// down the server's id.
func (s *Server) begin() error {
	if s.cfg.Raft.Alone && !s.who.known {
		err := s.Bootstrap([]consensus.Server{{ID: s.who.id, Address: s.cfg.Address, Voter: true}})
		if err != nil && !errdefs.IsFailedPrecondition(err) { // it has a log already
			return err
		}
	}
	if member, err := s.keepID(); member || err != nil {
		return err
	}
	return s.who.propose()
}

// keepID keeps the server's id if the log names it.
func (s *Server) keepID() (member bool, err error) {
	member, err = s.who.member(s.raft, s.joins())
	if !member || err != nil {
		return false, err
	}
	return true, s.who.keep()
}

// joins reports whether other servers can reach this one.
func (s *Server) joins() bool { return s.cfg.Raft.Listener != nil }

// Bootstrap makes this server, which has no log yet, a first member of a new cluster.
// Every first member must be given the same members. FailedPrecondition: it has a log.
func (s *Server) Bootstrap(members []consensus.Server) error { return s.raft.Bootstrap(members) }

// lookForMembership is the pause between two looks of a new server at whether it is a
// member.
const lookForMembership = 200 * time.Millisecond

// becomeMember returns when the id of this server is kept, because the log names it.
func (s *Server) becomeMember(ctx context.Context) {
	tick := time.NewTicker(lookForMembership)
	defer tick.Stop()
	for {
		member, err := s.keepID()
		switch {
		case ctx.Err() != nil || err == nil && member:
			return
		case err != nil:
			s.cfg.Logger.Error("this server's id could not be written", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// WaitLeader returns once this server leads, it knows another leader, ctx ends, or the
// server fails.
func (s *Server) WaitLeader(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := make(chan error, 1)
	go func() {
		_, err := s.raft.WaitLeader(ctx, func(l consensus.Server) bool { return l.ID != s.who.id })
		other <- err
	}()
	select {
	case <-s.firstTerm:
		return nil
	case err := <-s.failed:
		s.fail(err) // the error stays available
		return err
	case err := <-other:
		if err != nil {
			return fmt.Errorf("no server became the leader: %w", err)
		}
		return nil
	}
}

// Leads reports whether this server leads and has begun its term: all that only the
// leader runs is running or about to.
func (s *Server) Leads() bool { return s.leading.Load() }
