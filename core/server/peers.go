// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"github.com/drover-project/drover/core/peer"
)

// newPeers returns the connections to the other servers.
func (s *Server) newPeers() *peer.Peers {
	return peer.New(peer.Config{
		ID: s.who.id, Consensus: s.raft, Leader: s.leader, Address: s.addressOf, Reach: s.store.Reach,
		AcceptKey: s.AcceptKey, FilePart: func(digest string, offset int64) ([]byte, error) { return s.mirror().Own(digest, offset) }, TLS: s.cfg.PeerTLS, Dial: s.cfg.PeerDial, Logger: s.cfg.Logger,
	})
}

// Peers brings requests to the leader.
func (s *Server) Peers() *peer.Peers { return s.peers }

// leader returns the id and the address of the leader that this server knows, "" if none.
func (s *Server) leader() (id, address string) {
	l, _ := s.raft.Leader()
	if l.ID == s.who.id {
		return l.ID, s.cfg.Address // that of the log may be an older one
	}
	return l.ID, l.Address
}

// addressOf returns the address of a member of the cluster, "" if it is none.
func (s *Server) addressOf(id string) string {
	members, _, err := s.raft.Configuration()
	if err != nil {
		return ""
	}
	for _, m := range members {
		if m.ID == id {
			return m.Address
		}
	}
	return ""
}
