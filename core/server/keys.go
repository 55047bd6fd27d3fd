// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/auth/keyshare"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// memberIDs returns the ids of the servers in the raft configuration.
func (s *Server) memberIDs() ([]string, error) {
	members, _, err := s.raft.Configuration()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return ids, nil
}

func (s *Server) sharer() *keyshare.Sharer {
	return &keyshare.Sharer{Store: s.store, Log: s.log(), Ring: s.ring, Members: s.memberIDs, Transfer: s.raft.TransferLeadership, Logger: s.cfg.Logger.Named("keyring")}
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
