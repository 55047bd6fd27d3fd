// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Server is a member of the cluster.
type Server struct {
	ID      string
	Address string
	// Voter is true if the server counts for the quorum, false if it only receives the
	// log.
	Voter bool
	// Leader is true for the leader that this server knows.
	Leader bool
}

func suffrage(voter bool) raft.ServerSuffrage {
	if voter {
		return raft.Voter
	}
	return raft.Nonvoter
}

// Configuration returns the raft configuration and the index at which it last changed.
func (n *Node) Configuration() (servers []Server, index uint64, err error) {
	future := n.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil, 0, n.classify("read the members", err)
	}
	leader, _ := n.Leader()
	for _, s := range future.Configuration().Servers {
		servers = append(servers, Server{
			ID:      string(s.ID),
			Address: string(s.Address),
			Voter:   s.Suffrage == raft.Voter,
			Leader:  string(s.ID) == leader.ID,
		})
	}
	return servers, future.Index(), nil
}

// Any chooses every member for IDs.
func Any(Server) bool { return true }

// Voters chooses the members that have a vote.
func Voters(s Server) bool { return s.Voter }

// IDs returns the ids of the members that are wanted.
func (n *Node) IDs(wanted func(Server) bool) (ids []string, err error) {
	members, _, err := n.Configuration()
	for _, m := range members {
		if wanted(m) {
			ids = append(ids, m.ID)
		}
	}
	return ids, err
}

// AddressOf returns the address of a member, "" if the server is none.
func (n *Node) AddressOf(id string) string {
	members, _, err := n.Configuration()
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

// HasLog reports whether this server is, or was, a member of a cluster.
func (n *Node) HasLog() bool {
	members, err := n.IDs(Any)
	return err == nil && len(members) > 0
}

// AddServer adds a server or changes its address or vote. Only the leader can do this.
// A new voter counts for the quorum at once.
func (n *Node) AddServer(ctx context.Context, s Server) error {
	const what = "add a server to the members"
	id, address := raft.ServerID(s.ID), raft.ServerAddress(s.Address)
	add := n.raft.AddNonvoter
	if s.Voter {
		add = n.raft.AddVoter
	}
	return n.classify(what, n.pending.ask(ctx, func() raft.Future { return add(id, address, 0, untilDeadline(ctx)) }))
}

// DemoteServer takes away a server's vote; the server still receives the log. Only the
// leader can do this.
func (n *Node) DemoteServer(ctx context.Context, id string) error {
	const what = "take a server's vote"
	return n.classify(what, n.pending.ask(ctx, func() raft.Future {
		return n.raft.DemoteVoter(raft.ServerID(id), 0, untilDeadline(ctx))
	}))
}

// RemoveServer removes a server. Only the leader can do this; a leader that removes
// itself steps down.
func (n *Node) RemoveServer(ctx context.Context, id string) error {
	const what = "remove a server from the members"
	return n.classify(what, n.pending.ask(ctx, func() raft.Future {
		return n.raft.RemoveServer(raft.ServerID(id), 0, untilDeadline(ctx))
	}))
}

// TransferLeadership transfers leadership to the given server, or to the most
// up-to-date one if id is empty.
func (n *Node) TransferLeadership(ctx context.Context, id string) error {
	const what = "hand the lead over"
	if id == "" {
		return n.classify(what, n.pending.ask(ctx, n.raft.LeadershipTransfer))
	}
	servers, _, err := n.Configuration()
	if err != nil {
		return err
	}
	for _, s := range servers {
		switch {
		case s.ID != id:
			continue
		case !s.Voter: // raft would step down, and some other server would lead
			return errdefs.FailedPreconditionf("the server %q has no vote, so it cannot lead; `operator raft list-peers` shows who votes", id)
		}
		return n.classify(what, n.pending.ask(ctx, func() raft.Future {
			return n.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(s.Address))
		}))
	}
	return unknownServer(id)
}
