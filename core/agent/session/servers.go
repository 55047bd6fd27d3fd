// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	serversKey = "node/servers"
	// longestHint limits how long the node obeys a server that sends it away.
	longestHint = 30 * time.Second
	// patience is how many registrations in a row may fail before the node tries another
	// server.
	patience = 2
)

// mover returns the choice of servers; nil if the server is in this process.
func (s *Session) mover() rpc.Mover {
	m, _ := s.cfg.Servers.(rpc.Mover)
	return m
}

// shouldLeave reports whether the session must end because its server cannot serve the
// node, or does not answer in time, and there are others.
func (s *Session) shouldLeave(err error) bool {
	m := s.mover()
	return m != nil && len(m.Known()) > 1 && (errdefs.ReasonOf(err) == rpc.ReasonLeave || errdefs.IsDeadlineExceeded(err))
}

// leave makes the next session go to another server, if there is one and the last could not
// serve the node.
func (s *Session) leave(err error, failures int) bool {
	if !s.shouldLeave(err) && failures < patience && !isBehind(err) {
		return false
	}
	m := s.mover()
	return m != nil && m.Leave()
}

// loadServers passes the servers that the node knew before its restart to the client, in
// case no server of the configuration answers.
func (s *Session) loadServers(ctx context.Context) error {
	m := s.mover()
	if m == nil {
		return nil
	}
	body, err := s.cfg.Store.Get(ctx, serversKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, &s.kept); err != nil {
		s.cfg.Logger.Warn("the list of servers from before the restart cannot be read; the configured ones are asked", "error", err)
		return nil
	}
	m.Learn(s.kept)
	return nil
}

// keepServers stores the known servers when they have changed.
func (s *Session) keepServers(ctx context.Context) {
	m := s.mover()
	if m == nil {
		return
	}
	known := m.Known()
	slices.Sort(known)
	s.keptMu.Lock()
	defer s.keptMu.Unlock()
	if slices.Equal(known, s.kept) {
		return
	}
	body, err := json.Marshal(known)
	if err == nil {
		err = s.cfg.Store.Put(ctx, serversKey, body)
	}
	if err != nil {
		s.cfg.Logger.Warn("the list of servers could not be stored; after a restart only the configured ones are asked", "error", err)
		return
	}
	s.kept = known
}
