// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package joining

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/core/consensus"
)

const (
	// leaveWait limits the wait for the keys, and then the wait for the end of the
	// membership.
	leaveWait = 5 * time.Second
	// look is the pause between two checks of whether a server is still a member.
	look = 200 * time.Millisecond
)

// Leave takes this server out of its cluster: it makes sure that another server has the
// keys, hands the lead over, announces its leaving, and waits for a limited time until it
// is no longer a member. A single server has no cluster to leave.
func (j *Joiner) Leave(ctx context.Context) error {
	m, raft := j.members.Load(), j.parts.Raft
	if m == nil {
		return nil
	}
	all, err := raft.IDs(consensus.Any)
	if err != nil {
		return err
	}
	if len(all) < 2 {
		return m.Leave()
	}
	keys, cancel := context.WithTimeout(ctx, leaveWait)
	err = j.parts.GiveKeys(keys)
	cancel()
	if err != nil {
		return err
	}
	if raft.IsLeader() {
		// Choose a server that keeps up: the one that raft considers most up to date may be
		// dead.
		if err := raft.TransferLeadership(ctx, j.parts.Pilot.Successor(nil)); err != nil {
			return fmt.Errorf("hand the lead over before this server leaves: %w", err)
		}
	}
	if err := m.Leave(); err != nil {
		return err
	}
	return j.awaitEnd(ctx)
}

// awaitEnd waits for a limited time until this server is no longer a member: the others
// also remove it without its help.
func (j *Joiner) awaitEnd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		members, err := j.parts.Raft.IDs(consensus.Any)
		if err != nil || !slices.Contains(members, j.cfg.ID) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
