// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/auth/keyshare"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// memberIDs returns the ids of the servers in the raft configuration.
func (s *Server) memberIDs() ([]string, error) {
	return s.idsOf(func(consensus.Server) bool { return true })
}

// voterIDs returns the ids of the servers that have a vote.
func (s *Server) voterIDs() ([]string, error) {
	return s.idsOf(func(m consensus.Server) bool { return m.Voter })
}

// otherIDs returns the ids of the other members.
func (s *Server) otherIDs() ([]string, error) {
	return s.idsOf(func(m consensus.Server) bool { return m.ID != s.who.id })
}

func (s *Server) idsOf(wanted func(consensus.Server) bool) (ids []string, err error) {
	members, _, err := s.raft.Configuration()
	for _, m := range members {
		if wanted(m) {
			ids = append(ids, m.ID)
		}
	}
	return ids, err
}

// giveKeys waits until another server that stays can open all root keys. Without it
// nobody could read the variables after this server has left.
func (s *Server) giveKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	tick := time.NewTicker(lookForMembership)
	defer tick.Stop()
	for {
		voters, err := s.voterIDs()
		if err != nil {
			return err
		}
		if keyshare.Other(s.store.View(), s.ring, voters) != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errdefs.FailedPreconditionf("no other server has received the root keys, so variables could not be read without this one: it stays a member; see the log of the others")
		case <-tick.C:
		}
	}
}

func (s *Server) sharer() *keyshare.Sharer {
	return &keyshare.Sharer{Store: s.store, Log: s.log(), Ring: s.ring, Members: s.memberIDs, CanLead: s.pilot.CanLead, Transfer: s.raft.TransferLeadership, Logger: s.cfg.Logger.Named("keyring")}
}

func (s *Server) keeper() *keyshare.Keeper {
	return &keyshare.Keeper{Store: s.store, Ring: s.ring, Announce: s.announceKey, Logger: s.cfg.Logger.Named("keyring")}
}

// announceKey brings this server's public key to the leader.
func (s *Server) announceKey(ctx context.Context, key *model.ServerKey) error {
	switch {
	case s.Leads():
		return s.AcceptKey(ctx, key)
	case !s.joins():
		return nil // it is alone, and announces its key when it leads
	}
	return s.peers.AnnounceKey(ctx, key)
}

// AcceptKey stores the public key of a server. Only the leader can do this: see
// keyshare.Sharer.
func (s *Server) AcceptKey(ctx context.Context, key *model.ServerKey) error {
	return s.sharer().Accept(ctx, key)
}

// renewRootKeys replaces and removes root keys by their age while this server leads.
func (s *Server) renewRootKeys(ctx context.Context) {
	limits := s.cfg.RootKeys
	if limits == (keys.Limits{}) {
		limits = keys.DefaultLimits()
	}
	log := s.cfg.Logger.Named("keyring")
	tick := time.NewTicker(limits.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rotate, remove := limits.Due(s.store.View(), time.Now())
		if rotate {
			key, err := s.endpoint.RotateKey(ctx, &api.RotateKeyRequest{})
			if err == nil {
				log.Info("the root key was old and was replaced; variables that it encrypts stay readable", "key", key.KeyID)
			} else if ctx.Err() == nil {
				log.Warn("the root key is old and could not be replaced; this is tried again", "error", err)
			}
		}
		for _, id := range remove {
			_, err := s.endpoint.RemoveKey(ctx, id)
			if err == nil {
				log.Info("an old root key that nothing needs was removed", "key", id)
			} else if ctx.Err() == nil && !errdefs.IsFailedPrecondition(err) && !errdefs.IsNotFound(err) {
				log.Warn("an old root key could not be removed; this is tried again", "key", id, "error", err)
			}
		}
	}
}

// opens returns an error if this server cannot open the root keys of a snapshot.
func (s *Server) opens(of *state.View) error {
	if err := s.ring.Reread(); err != nil { // the operator may have put the right key there
		return err
	}
	for root := range of.RootKeys() {
		err := s.ring.Opens(root)
		if errdefs.IsUnavailable(err) {
			return errdefs.FailedPreconditionf("the snapshot is of a cluster whose servers have other key files, so nobody here could read its variables (root key %s): "+
				"copy %s of one of its servers into the data directory of this server, the leader, as %s, and restore the snapshot again; the file can be removed afterwards", root.KeyID, keyring.FileName, keyring.FormerName)
		}
		if err != nil {
			return fmt.Errorf("the variables in the snapshot cannot be read: %w", err)
		}
	}
	return nil
}
