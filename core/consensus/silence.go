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
// leader is silent. And a candidate gets no vote of another follower before that one has
// looked, too: the election takes as long as the later of the two looks, which may come
// almost three timeouts after the leader's last word. So this server has raft look when
// the timeout is over. It does so only if the lead has been steady: where leaders come and
// go, the machines are overloaded, and a faster change makes it worse.

// steady is for how many timeouts there must have been one term.
const steady = 25

// watchSilence has raft look at its leader's silence until ctx ends.
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

// turn returns how much later than the timeout a follower looks: two that begin an election
// at the same moment may both fail. Followers have heard of their leader at moments up to
// a fifth of the timeout apart.
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

// lookNow has raft look at once. It does so when its timeout becomes shorter, and begins
// an election only if its leader has really been silent for so long.
func (n *Node) lookNow(timeout time.Duration) {
	c := n.raft.ReloadableConfig()
	for _, c.HeartbeatTimeout = range []time.Duration{timeout - 1, timeout} {
		if err := n.raft.ReloadConfig(c); err != nil {
			n.logger.Debug("raft does not look at its leader's silence at once; it will do so by itself", "error", err)
			return
		}
	}
}
