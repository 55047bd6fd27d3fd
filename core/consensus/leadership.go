// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// IsLeader reports whether this server believes that it is the leader.
func (n *Node) IsLeader() bool { return n.raft.State() == raft.Leader }

// Leader returns the leader that this server knows.
func (n *Node) Leader() (leader Server, known bool) {
	address, id := n.raft.LeaderWithID()
	if id == "" {
		return Server{}, false
	}
	return Server{ID: string(id), Address: string(address), Voter: true, Leader: true}, true
}

// WaitLeader returns once this server knows a leader that wanted accepts; nil accepts
// every one. Its only error is that of ctx.
func (n *Node) WaitLeader(ctx context.Context, wanted func(Server) bool) (Server, error) {
	changed := make(chan raft.Observation, 1)
	watch := raft.NewObserver(changed, false, func(o *raft.Observation) bool {
		_, leader := o.Data.(raft.LeaderObservation)
		return leader
	})
	n.raft.RegisterObserver(watch)
	defer n.raft.DeregisterObserver(watch)
	for {
		if leader, known := n.Leader(); known && (wanted == nil || wanted(leader)) {
			return leader, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Server{}, ctx.Err()
		}
	}
}

// Leadership returns a channel that receives each change of this server's leadership.
// It has one reader: WhileLeading or the caller. A slow reader may miss changes that
// were reverted meanwhile, but never the newest.
func (n *Node) Leadership() <-chan bool { return n.raft.LeaderCh() }

// WhileLeading runs lead each time this server has become the leader and has applied
// everything that was committed before. lead's context ends when leadership is lost;
// lead is called again only after it has returned. WhileLeading returns when ctx ends
// and lead has returned.
func (n *Node) WhileLeading(ctx context.Context, lead func(ctx context.Context)) {
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case leads := <-n.Leadership():
			// A second "leader" without a loss in between means that the loss was
			// missed, so this is a new term.
			stop()
			stop = func() {}
			if leads {
				stop = n.beginTerm(ctx, lead)
			}
		}
	}
}

// beginTerm starts lead and returns a function that stops it and waits for it.
func (n *Node) beginTerm(ctx context.Context, lead func(ctx context.Context)) (stop func()) {
	term, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := n.Barrier(term); err != nil {
			if term.Err() == nil {
				n.logger.Warn("could not begin to lead", "error", err)
			}
			return
		}
		lead(term)
	}()
	return func() {
		cancel()
		<-done
	}
}

func unknownServer(id string) error {
	return errdefs.NotFoundf("no server %q is a member; see the members with `operator raft list-peers`", id)
}
