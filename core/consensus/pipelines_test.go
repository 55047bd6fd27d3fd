// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus"
)

// stuck is a pipeline without room for another request, whose answers nobody reads.
type stuck struct{ closed chan struct{} }

func (s stuck) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	<-s.closed
	return nil, raft.ErrPipelineShutdown
}
func (stuck) Consumer() <-chan raft.AppendFuture { return nil }
func (s stuck) Close() error                     { close(s.closed); return nil }

func TestAFollowerGetsEntriesAgainAfterItsPipelineWasStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := consensus.Pipeline(stuck{make(chan struct{})}).AppendEntries(nil, nil)
		if waited := time.Since(began); !errors.Is(err, raft.ErrPipelineShutdown) || waited > time.Minute {
			t.Errorf("after %v: %v", waited, err) // raft then makes another pipeline
		}
	})
}
