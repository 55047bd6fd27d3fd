// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"io"

	"github.com/hashicorp/raft"
)

// SnapshotInfo describes a snapshot to who stores it elsewhere.
type SnapshotInfo struct {
	ID    string
	Index uint64
	Term  uint64
	Size  int64
}

// TakeSnapshot writes a snapshot of the present state and opens it for reading.
// The caller closes the reader.
func (n *Node) TakeSnapshot(ctx context.Context) (SnapshotInfo, io.ReadCloser, error) {
	const what = "take a snapshot"
	future := n.raft.Snapshot()
	if err := wait(ctx, future); err != nil {
		return SnapshotInfo{}, nil, n.classify(what, err)
	}
	meta, r, err := future.Open()
	if err != nil {
		return SnapshotInfo{}, nil, n.classify("open the snapshot", err)
	}
	return SnapshotInfo{ID: meta.ID, Index: meta.Index, Term: meta.Term, Size: meta.Size}, r, nil
}

// RestoreSnapshot replaces the state of the whole cluster by a snapshot. Only
// the leader can do it. The members stay as they are.
func (n *Node) RestoreSnapshot(ctx context.Context, info SnapshotInfo, r io.Reader) error {
	meta := &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax,
		ID:      info.ID,
		Index:   info.Index,
		Term:    info.Term,
		Size:    info.Size,
	}
	return n.classify("restore a snapshot", n.raft.Restore(meta, r, untilDeadline(ctx)))
}
