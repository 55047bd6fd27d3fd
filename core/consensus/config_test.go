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
