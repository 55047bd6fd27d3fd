// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// A follower of raft looks only at random moments, one to two timeouts apart, whether its
// leader is silent. And a candidate gets no vote from another follower before that one has
// looked, too, so an election takes until the later of the two looks, almost three timeouts
// after the leader's last message. Therefore this server makes raft look as soon as the
// timeout is over, but only if the leader has been stable: frequent changes of the leader
// mean that the machines are overloaded, and faster elections would make it worse.

// steady is for how many timeouts there must have been one term.
const steady = 25

// watchSilence makes raft check whether its leader is silent, until ctx ends.
func (n *Node) watchSilence(ctx context.Context, timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var looked time.Time // at this silence: the contact before it
	var term uint64
	var began time.Time // when this server first saw the term
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if now := n.raft.CurrentTerm(); now != term {
			term, began = now, time.Now()
		}
		contact, wait := n.raft.LastContact(), timeout/4
		_, leader := n.raft.LeaderWithID()
		if leader != "" && n.raft.State() == raft.Follower && contact != looked && time.Since(began) >= steady*timeout {
			wait = time.Until(contact.Add(timeout + turn(n.raft.GetConfiguration().Configuration(), raft.ServerID(n.id), leader, timeout)))
			if wait <= 0 {
				n.lookNow(timeout)
				looked, wait = contact, timeout/4
			}
		}
		timer.Reset(wait)
	}
}

// turn returns by how much later than the timeout this follower checks: two followers that
// begin an election at the same moment may both fail. Their last messages from the leader
// may be up to a fifth of the timeout apart.
func turn(members raft.Configuration, self, leader raft.ServerID, timeout time.Duration) time.Duration {
	var voters []raft.ServerID
	for _, s := range members.Servers {
		if s.Suffrage == raft.Voter && s.ID != leader {
			voters = append(voters, s.ID)
		}
	}
	slices.Sort(voters)
	return time.Duration(max(0, slices.Index(voters, self))) * timeout / 4
}

// lookNow makes raft check at once, by shortening its timeout. Raft begins an election only
// if its leader has really been silent for that time.
func (n *Node) lookNow(timeout time.Duration) {
	c := n.raft.ReloadableConfig()
	for _, c.HeartbeatTimeout = range []time.Duration{timeout - 1, timeout} {
		if err := n.raft.ReloadConfig(c); err != nil {
			n.logger.Debug("raft could not be made to check at once whether its leader is silent; it checks by itself later", "error", err)
			return
		}
	}
}
