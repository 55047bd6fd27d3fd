// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/core/consensus"
)

// BenchmarkPropose writes commands of 300 bytes from many goroutines through a
// server alone, durably.
func BenchmarkPropose(b *testing.B) {
	for _, proposers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("%d", proposers), func(b *testing.B) {
			n, err := consensus.Open(consensus.Config{NodeID: "a", DataDir: b.TempDir(), Machine: &counter{}})
			if err != nil {
				b.Fatal(err)
			}
			defer n.Close()
			for !n.IsLeader() {
				<-time.After(time.Millisecond)
			}
			command := make([]byte, 300)
			b.SetParallelism(max(1, proposers/2))
			b.ReportAllocs()
			b.ResetTimer()
			if proposers == 1 {
				for b.Loop() {
					write(b, n, command)
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					write(b, n, command)
				}
			})
		})
	}
}

func write(b *testing.B, n *consensus.Node, command []byte) {
	if _, _, err := n.Propose(context.Background(), command); err != nil {
		b.Error(err)
	}
}

// counter does no work, so that the figure is raft's and the disk's.
type counter struct{ words }

func (*counter) ApplyBatch(entries []consensus.Entry) []any { return make([]any, len(entries)) }
