// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/auth/keyshare"
	"github.com/drover-project/drover/core/capability"
	"github.com/drover-project/drover/core/capability/gate"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
)

// What follows lets one part call another that is constructed after it, or with arguments
// that it does not know.

// capabilities returns the servers of the raft configuration with the levels that they
// announce.
func (s *Server) capabilities() ([]capability.Server, error) {
	announced := s.joiner.Announced
	if s.cfg.Announced != nil {
		announced = s.cfg.Announced
	}
	return gate.Servers(s.raft, capability.Server{ID: s.who.ID, Level: s.cfg.Level}, announced)
}

// leader returns the id and the address of the leader that this server knows, "" if none.
func (s *Server) leader() (id, address string) {
	l, _ := s.raft.Leader()
	if l.ID == s.who.ID {
		return l.ID, s.cfg.Address // the address in the log may be an older one
	}
	return l.ID, l.Address
}

// others returns the ids of the other members.
func (s *Server) others() ([]string, error) {
	return s.raft.IDs(func(m consensus.Server) bool { return m.ID != s.who.ID })
}

// filePart reads a part of a plugin file of this server, for another one.
func (s *Server) filePart(digest string, offset int64) ([]byte, error) {
	return s.mirror.Own(digest, offset)
}

// takeFile copies a plugin file to this server at the request of a server that has it.
func (s *Server) takeFile(ctx context.Context, server, digest string) error {
	return s.mirror.Take(ctx, server, digest)
}

// acceptKey stores the public key of a server; only the leader can.
func (s *Server) acceptKey(ctx context.Context, key *model.ServerKey) error {
	return s.sharer().Accept(ctx, key)
}

// announceKey brings this server's public key to the leader.
func (s *Server) announceKey(ctx context.Context, key *model.ServerKey) error {
	switch {
	case s.Leads():
		return s.acceptKey(ctx, key)
	case !s.cfg.joins():
		return nil // it is alone, and announces its key when it leads
	}
	return s.peers.AnnounceKey(ctx, key)
}

// giveKeys waits until another voter can open all root keys.
func (s *Server) giveKeys(ctx context.Context) error {
	return keyshare.GiveAway(ctx, s.store, s.ring, func() ([]string, error) { return s.raft.IDs(consensus.Voters) })
}

// opens returns an error if this server cannot open the root keys of a snapshot.
func (s *Server) opens(of *state.View) error { return keyshare.OpensSnapshot(s.ring, of) }

// openVariable decrypts a variable.
func (s *Server) openVariable(v *state.View, row *model.Variable) (map[string]string, error) {
	return s.ring.OpenRow(v.RootKeyByID(row.KeyID), row)
}

// collectGarbage removes all ended objects now.
func (s *Server) collectGarbage(ctx context.Context) error {
	for _, cmd := range gc.Collect(s.store.View(), time.Now(), gc.Thresholds{}) {
		if _, err := propose.Commands(ctx, s.log, cmd); err != nil {
			return err
		}
	}
	return nil
}

// fail reports why the server must be closed; only the first reason is reported.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// claimVolume gives a node a volume that an alloc of it needs.
func (s *Server) claimVolume(ctx context.Context, nodeID string, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	grant, err := s.claims.Claim(ctx, nodeID, q.AllocID, q.Volume)
	if err != nil {
		return rpc.VolumeGrant{}, err
	}
	return s.endpoint.VolumeGrant(grant.Volume, grant.Request, grant.Attachment)
}
