// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package gate is the log to which the parts of a server propose: a command passes only if
// every server of the cluster can read it. core/server composes it.
package gate

import (
	"context"

	"github.com/drover-project/drover/core/capability"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/state"
)

// Log is the consensus node behind the gate.
type Log struct {
	*consensus.Node
	gate propose.Gate
}

// New returns the log. servers returns the servers of the raft configuration with the
// levels that they announce.
func New(node *consensus.Node, store *state.Store, servers func() ([]capability.Server, error)) Log {
	level := func() int { return store.View().Level() }
	refuse := func(need int) error {
		all, err := servers()
		if err != nil {
			return err
		}
		return capability.Refuse(need, level(), all)
	}
	full := func() error {
		if !node.IsLeader() { // the leader raises the level
			return nil
		}
		return node.ReadOnly()
	}
	return Log{node, propose.Gate{Level: level, Refuse: refuse, CannotRaise: full}}
}

// Propose proposes a command that every server can read; otherwise it returns the error
// of capability.Refuse.
func (l Log) Propose(ctx context.Context, command []byte) (uint64, any, error) {
	if err := l.gate.Check(command); err != nil {
		return 0, nil, err
	}
	return l.Node.Propose(ctx, command)
}

// HasLeader reports whether a leader is known.
func (l Log) HasLeader() bool {
	_, known := l.Leader()
	return known
}

// Servers returns the servers of the raft configuration with the levels that they
// announce. own is this server, and announced returns the name and the level of another
// one, 0 if it is unknown.
func Servers(node *consensus.Node, own capability.Server, announced func(id string) (name string, level int)) ([]capability.Server, error) {
	members, _, err := node.Configuration()
	if err != nil {
		return nil, err
	}
	var out []capability.Server
	for _, m := range members {
		c := capability.Server{ID: m.ID, Level: own.Level}
		if m.ID != own.ID {
			c.Name, c.Level = announced(m.ID)
		}
		out = append(out, c)
	}
	return out, nil
}
