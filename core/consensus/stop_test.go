// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/core/consensus"
)

func TestAServerThatStopsSparesItsNextStartTheReplayOfALongLog(t *testing.T) {
	for _, written := range []int{20, 600} {
		dir := t.TempDir()
		n := openNode(t, consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: &words{}})
		eventually(t, "the only server leads", n.IsLeader)
		for i := range written {
			propose(t, n, fmt.Sprint("w", i))
		}
		closeNode(t, n)
		again := &words{}
		n = openNode(t, consensus.Config{NodeID: "a", DataDir: dir, Dev: true, Machine: again})
		eventually(t, "all is there", func() bool { return len(again.all()) == written })
		closeNode(t, n)
		if restored := again.restored == 1; restored != (written > 512) {
			t.Errorf("of %d entries: restored from a snapshot is %v", written, restored)
		}
	}
}
