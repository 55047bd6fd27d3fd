// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"sync"
	"time"

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

// WaitLeader returns once this server knows a leader that wanted accepts; nil accepts every
// one. It fails only when ctx ends.
func (n *Node) WaitLeader(ctx context.Context, wanted func(Server) bool) (Server, error) {
	for {
		changed := n.LeaderChanged()
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

// Leads reports whether this server is the leader and has applied everything that was
// committed before its term, so that its state lacks no acknowledged write. It may have
// lost the lead without knowing it: see VerifyLeader.
func (n *Node) Leads() bool {
	term := n.begun.Load()
	return term != 0 && n.IsLeader() && n.raft.CurrentTerm() == term
}

// CaughtUp reports whether this server, since it was opened, has applied all committed
// entries of its log. A server that starts does not know which part of its log is committed
// until the leader has sent it entries: heartbeats do not contain it, and may come seconds
// earlier. Until then its state is its newest snapshot.
func (n *Node) CaughtUp() bool {
	if n.caught.Load() {
		return true
	}
	if commit := n.raft.CommitIndex(); n.Leads() || commit > 0 && n.raft.AppliedIndex() >= commit {
		n.caught.Store(true)
		return true
	}
	return false
}

// LastContact returns how long ago this server heard of the leader: 0 for the leader
// itself. A server that has not caught up says how long it has run.
func (n *Node) LastContact() time.Duration {
	if n.IsLeader() {
		return 0
	}
	at := n.raft.LastContact()
	if at.Before(n.opened) || !n.CaughtUp() {
		at = n.opened
	}
	return time.Since(at)
}

// LeaderChanged returns a channel that is closed at the next change of Leader or Leads.
// Call it before you read either.
func (n *Node) LeaderChanged() <-chan struct{} { return n.leading.wait() }

// changes wakes those who wait for a change.
type changes struct {
	mu   sync.Mutex
	next chan struct{}
}

func (c *changes) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// watchLeader passes raft's news about the leader on until ctx ends.
func (n *Node) watchLeader(ctx context.Context) {
	// A buffer of one is enough, because the reader then reads the newest state.
	news := make(chan raft.Observation, 1)
	observer := raft.NewObserver(news, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	n.raft.RegisterObserver(observer)
	go func() {
		defer n.raft.DeregisterObserver(observer)
		for {
			select {
			case <-ctx.Done():
				return
			case <-news:
				n.leading.tell()
			}
		}
	}()
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
		now := n.raft.CurrentTerm() // if it is older than the barrier, the next term begins in a moment
		if err := n.Barrier(term); err != nil {
			if term.Err() == nil {
				n.logger.Warn("could not begin to lead", "error", err)
			}
			return
		}
		n.begun.Store(now)
		n.leading.tell()
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

// LongestPause returns the longest pause between two heartbeats of a leader to a follower:
// raft waits for a random time between a tenth and two tenths of the timeout.
func (n *Node) LongestPause() time.Duration { return n.raft.ReloadableConfig().HeartbeatTimeout / 5 }
