// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// VerifyLeader returns once a quorum has confirmed, after the call, that this server leads,
// and the server has applied all entries that were committed before its term. Its state
// then contains every write that was acknowledged before the call. Waiting callers share
// one round of messages to the other servers. After an error the caller may ask another
// server.
func (n *Node) VerifyLeader(ctx context.Context) error {
	const what = "confirm the lead with the other servers"
	if err := n.brokenDown(); err != nil {
		return err
	}
	err := n.asked.wait(ctx, n.confirm)
	if errors.Is(err, raft.ErrLeadershipLost) {
		err = raft.ErrNotLeader // nothing was written
	}
	return n.classify(what, err)
}

// confirm asks the other servers.
func (n *Node) confirm() error {
	if !n.Leads() {
		return raft.ErrNotLeader
	}
	if !n.AloneVoting() {
		if err := n.pending.ask(context.Background(), n.raft.VerifyLeader); err != nil {
			return err
		}
	}
	// It may have lost the lead and won it again: then another leader has written in
	// between.
	if !n.Leads() {
		return raft.ErrNotLeader
	}
	return nil
}

// AloneVoting reports whether nobody else can elect a leader.
func (n *Node) AloneVoting() bool {
	voters := 0
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			voters++
		}
	}
	return voters == 1
}

// confirmations lets callers share a confirmation. Callers that arrive while one is in
// progress share the next one, because the current one may have begun before their call.
type confirmations struct {
	mu      sync.Mutex
	next    *confirmation // nil: nobody waits for another one
	running bool
}

type confirmation struct {
	done chan struct{}
	err  error // set before done is closed
}

// wait returns the result of a question that was asked after the call.
func (c *confirmations) wait(ctx context.Context, ask func() error) error {
	c.mu.Lock()
	mine := c.next
	if mine == nil {
		mine = &confirmation{done: make(chan struct{})}
		c.next = mine
	}
	if !c.running {
		c.running = true
		go c.run(ask)
	}
	c.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run asks until nobody waits.
func (c *confirmations) run(ask func() error) {
	for {
		c.mu.Lock()
		now := c.next
		c.next = nil
		c.running = now != nil
		c.mu.Unlock()
		if now == nil {
			return
		}
		now.err = ask()
		close(now.done)
	}
}
