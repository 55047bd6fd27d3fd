// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/autopilot/pilot"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/membership"
	"github.com/drover-project/drover/core/peer"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/snapshots"
	"github.com/drover-project/drover/core/worker/pool"
)

// ID returns the server's id, which does not change across restarts.
func (s *Server) ID() string { return s.who.ID }

// Started returns when the server was started.
func (s *Server) Started() time.Time { return s.started }

// Failed returns a channel that receives an error when this server cannot continue and
// must be closed.
func (s *Server) Failed() <-chan error { return s.failed }

// ReadOnly returns why the server currently rejects writes, nil if it accepts them.
func (s *Server) ReadOnly() error { return s.raft.ReadOnly() }

// Endpoint returns the implementation of public requests.
func (s *Server) Endpoint() *endpoint.Endpoint { return s.endpoint }

// Sessions returns the server side of nodes' sessions.
func (s *Server) Sessions() rpc.Servers { return s.dispatch }

// Peers brings requests to the leader.
func (s *Server) Peers() *peer.Peers { return s.peers }

// Pilot returns the pilot of autopilot, for requests of operators.
func (s *Server) Pilot() *pilot.Pilot { return s.pilot }

// Raft returns the consensus node, for operators.
func (s *Server) Raft() *consensus.Node { return s.raft }

// Workers returns the workers that schedule, for operators.
func (s *Server) Workers() *pool.Pool { return s.workers }

// Snapshots returns the part that saves and restores the state of the cluster.
func (s *Server) Snapshots() *snapshots.Snapshots { return s.snapshots }

// Stats returns counters of the server's parts.
func (s *Server) Stats() (broker queue.Stats, blocked int, controls map[string]control.Stats, rows map[string]int) {
	return s.broker.Stats(), s.blocked.Len(), s.controls.Stats(), s.store.View().Sizes()
}

// admit asks the queue whether an evaluation may come to a lane.
func (s *Server) admit(namespace, pool string) (release func(), err error) {
	return s.broker.Admit(queue.LaneID{Namespace: namespace, NodePool: pool})
}

// lanes describes the lanes of the queue, which are empty unless this server leads.
func (s *Server) lanes() []*api.QueueLane {
	out := []*api.QueueLane{}
	for _, l := range s.broker.Lanes() {
		out = append(out, &api.QueueLane{
			Namespace: l.Namespace, NodePool: l.NodePool, Weight: l.Weight, PoolWeight: l.PoolWeight, Ordered: l.Ordered, MaxDepth: l.MaxDepth,
			Ready: l.Ready, Unacked: l.Unacked, Waiting: l.Waiting, Holding: l.Blocked, Served: l.Served, LastWait: l.Waited,
		})
	}
	return out
}

// QueueLanes describes the lanes of the queue, for metrics.
func (s *Server) QueueLanes() []*api.QueueLane { return s.lanes() }

// Bootstrap makes this server, which has no log yet, a first member of a new cluster.
// Every first member must be given the same members. FailedPrecondition: it has a log.
func (s *Server) Bootstrap(members []consensus.Server) error { return s.raft.Bootstrap(members) }

// Alone reports whether this server is the only member of its cluster.
func (s *Server) Alone() bool {
	ids, err := s.raft.IDs(consensus.Any)
	return err == nil && len(ids) == 1 && ids[0] == s.who.ID
}

// Members returns the gossip of the servers; nil if this server does not gossip.
func (s *Server) Members() *membership.Membership { return s.joiner.Members() }

// Addresses returns the rpc addresses of the servers that are alive, this one first.
func (s *Server) Addresses() []string { return s.joiner.Addresses() }

// Join contacts other servers. It returns how many have answered.
func (s *Server) Join(ctx context.Context, addresses []string) (int, error) {
	return s.joiner.Join(ctx, addresses)
}

// Leave takes this server out of its cluster: see joining.Joiner.Leave. Close follows.
func (s *Server) Leave(ctx context.Context) error { return s.joiner.Leave(ctx) }
