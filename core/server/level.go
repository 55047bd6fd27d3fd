// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"

	"github.com/drover-project/drover/core/capability"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/propose"
)

// gated is the consensus node behind the gate of the capability level.
type gated struct {
	*consensus.Node
	gate propose.Gate
}

// Propose proposes a command that every server can read.
func (g gated) Propose(ctx context.Context, command []byte) (uint64, any, error) {
	if err := g.gate.Check(command); err != nil {
		return 0, nil, err
	}
	return g.Node.Propose(ctx, command)
}

// log returns the log to which the parts of the server propose.
func (s *Server) log() gated {
	return gated{s.raft, propose.Gate{
		Level: func() int { return s.store.View().Level() },
		Refuse: func(need int) error {
			servers, err := s.capabilities()
			if err != nil {
				return err
			}
			return capability.Refuse(need, s.store.View().Level(), servers)
		},
	}}
}

// capabilities returns the servers of the raft configuration with the levels that they
// announce.
func (s *Server) capabilities() ([]capability.Server, error) {
	members, _, err := s.raft.Configuration()
	if err != nil {
		return nil, err
	}
	var out []capability.Server
	for _, m := range members {
		c := capability.Server{ID: m.ID}
		switch {
		case m.ID == s.ID():
			c.Level = s.cfg.Level
		case s.cfg.Announced != nil:
			c.Name, c.Level = s.cfg.Announced(m.ID)
		}
		out = append(out, c)
	}
	return out, nil
}

func (s *Server) raiser() *capability.Raiser {
	return &capability.Raiser{Store: s.store, Log: s.raft, Servers: s.capabilities, Release: s.cfg.Release, Logger: s.cfg.Logger.Named("capability")}
}
