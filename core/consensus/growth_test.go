// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/core/consensus"
)

// counted is a state machine that counts its snapshots.
type counted struct {
	words
	snapshots atomic.Int64
}

func (c *counted) Snapshot() (consensus.Snapshot, error) {
	c.snapshots.Add(1)
	return c.words.Snapshot()
}

// Raft looks only at the number of entries, of which one may be large.
func TestAServerThatIsKilledHasFewBytesOfLogToApplyAgain(t *testing.T) {
	dir, word := t.TempDir(), strings.Repeat("w", 1000)
	machine := &counted{}
	cfg := consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: machine, SnapshotBytes: 10_000}
	n := openNode(t, cfg)
	eventually(t, "the only server leads", n.IsLeader)
	for range 11 {
		propose(t, n, word)
	}
	eventually(t, "a snapshot of 10 kB", func() bool { return machine.snapshots.Load() == 1 })
	for range 25 { // from here on the next one is due when as much was written as the newest has
		propose(t, n, word)
	}
	eventually(t, "a second snapshot", func() bool { return machine.snapshots.Load() == 2 })
	eventually(t, "the limit of the second", func() bool { return n.GrowthLimit() > 20_000 })
	for range 3 {
		propose(t, n, word)
	}
	closeNode(t, n) // too few entries for a snapshot at the stop
	if got := machine.snapshots.Load(); got != 2 {
		t.Errorf("%d snapshots, the third after less than the second one has", got)
	}
	again := &words{}
	cfg.Machine = again
	n = openNode(t, cfg)
	eventually(t, "all is there", func() bool { return len(again.all()) == 39 })
	closeNode(t, n)
	if again.restored != 1 {
		t.Errorf("restored %d times from a snapshot", again.restored)
	}
}
