// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// leastGrowth is the number of bytes of log up to which no snapshot is taken for their sake.
const leastGrowth = 16 << 20

// growth counts the bytes that are written to a log. Raft takes a snapshot after so many
// entries, and looks for that every few minutes. An entry may be a plan for thousands of
// allocs, so a server that is killed could have hundreds of megabytes to apply again at its
// start. With growth there is also a snapshot whenever the log has grown by as much as the
// newest snapshot has, which at most doubles what is written.
type growth struct {
	raft.LogStore
	bytes atomic.Int64  // since the last snapshot for their sake began
	limit atomic.Int64  // at which the next one begins
	due   chan struct{} // of size 1
}

func newGrowth(log raft.LogStore, least int64) *growth {
	g := &growth{LogStore: log, due: make(chan struct{}, 1)}
	g.limit.Store(least)
	return g
}

// StoreLog writes an entry.
func (g *growth) StoreLog(log *raft.Log) error { return g.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes entries.
func (g *growth) StoreLogs(logs []*raft.Log) error {
	if err := g.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	n := 0
	for _, l := range logs {
		n += len(l.Data)
	}
	if g.bytes.Add(int64(n)) >= g.limit.Load() {
		select {
		case g.due <- struct{}{}:
		default:
		}
	}
	return nil
}

// watchGrowth takes a snapshot each time that the log has grown by enough, until ctx ends.
func (n *Node) watchGrowth(ctx context.Context, g *growth, least int64) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.due:
		}
		if g.bytes.Load() < g.limit.Load() {
			continue // the word is about bytes that the snapshot before had
		}
		g.bytes.Store(0)
		if err := n.pending.ask(ctx, func() raft.Future { return n.raft.Snapshot() }); err != nil && ctx.Err() == nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
			n.logger.Warn("the log has grown, and no snapshot of the state could be taken; it is tried again when the log has grown further, and a start takes longer until then", "error", err)
		}
		all, err := n.stores.snapshots.List()
		if err == nil && len(all) > 0 {
			g.limit.Store(max(least, all[0].Size))
		}
	}
}
