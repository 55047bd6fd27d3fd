// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/consensus"
)

func TestTheMultiplierScalesTheTimeoutsOfElections(t *testing.T) {
	for multiplier, want := range map[int]time.Duration{0: 400 * time.Millisecond, 1: 400 * time.Millisecond, 5: 2 * time.Second} {
		heartbeat, election, lease := consensus.Timeouts(consensus.Config{Multiplier: multiplier})
		if heartbeat != want || election != want || lease != want*3/4 {
			t.Errorf("multiplier %d: %s, %s, %s", multiplier, heartbeat, election, lease)
		}
	}
}

func TestFollowersLookOneAfterAnotherWhetherTheirLeaderIsSilent(t *testing.T) {
	const timeout = 400 * time.Millisecond
	voters := []string{"c", "a", "b"}
	for _, leader := range voters {
		seen := map[time.Duration]bool{}
		for _, self := range voters {
			if turn := consensus.Turn(voters, self, leader, timeout); self != leader {
				if seen[turn] || turn > timeout/4 {
					t.Errorf("%s looks %s after the timeout when %s is silent", self, turn, leader)
				}
				seen[turn] = true
			}
		}
	}
	if turn := consensus.Turn(voters, "a replica", "a", timeout); turn != 0 {
		t.Errorf("a server without a vote waits %s", turn)
	}
}
