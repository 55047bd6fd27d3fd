// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"context"
	"sync"
	"testing"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Raft does not answer a request that waits in its queue when it shuts down. The callers
// have no deadline, and goleak finds a goroutine that waits for raft.
func TestEveryProposalIsAnsweredWhenTheNodeCloses(t *testing.T) {
	for range 20 {
		machine := &words{}
		n := openNode(t, consensus.Config{NodeID: "a", Dev: true, DataDir: t.TempDir(), Machine: machine})
		eventually(t, "the only server leads", n.IsLeader)
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				for {
					if _, _, err := n.Propose(context.Background(), []byte("word")); errdefs.IsUnavailable(err) {
						return
					} else if err != nil {
						t.Errorf("propose: %v", err)
						return
					}
				}
			})
		}
		eventually(t, "they write", func() bool { return len(machine.all()) > 0 })
		closeNode(t, n)
		callers.Wait()
	}
}
