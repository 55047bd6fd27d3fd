// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"io"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// SnapshotInfo is the metadata of a snapshot.
type SnapshotInfo struct {
	ID    string
	Index uint64
	Term  uint64
	Size  int64
}

// TakeSnapshot takes a snapshot of the current state and opens it for reading. The
// caller closes the reader.
func (n *Node) TakeSnapshot(ctx context.Context) (SnapshotInfo, io.ReadCloser, error) {
	const what = "take a snapshot"
	var future raft.SnapshotFuture
	err := n.pending.ask(ctx, func() raft.Future {
		future = n.raft.Snapshot()
		return future
	})
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return n.newestSnapshot()
	}
	if err != nil {
		return SnapshotInfo{}, nil, n.classify(what, err)
	}
	meta, r, err := future.Open()
	if err != nil {
		return SnapshotInfo{}, nil, n.classify("open the snapshot", err)
	}
	return SnapshotInfo{ID: meta.ID, Index: meta.Index, Term: meta.Term, Size: meta.Size}, r, nil
}

// newestSnapshot opens the newest stored snapshot, after raft has reported that
// nothing was applied since.
func (n *Node) newestSnapshot() (SnapshotInfo, io.ReadCloser, error) {
	const what = "open the newest snapshot"
	all, err := n.stores.snapshots.List()
	if err != nil {
		return SnapshotInfo{}, nil, n.classify(what, err)
	}
	if len(all) == 0 {
		return SnapshotInfo{}, nil, errdefs.FailedPreconditionf("%s: there is none, and nothing to take one of", what)
	}
	meta, r, err := n.stores.snapshots.Open(all[0].ID)
	if err != nil {
		return SnapshotInfo{}, nil, n.classify(what, err)
	}
	return SnapshotInfo{ID: meta.ID, Index: meta.Index, Term: meta.Term, Size: meta.Size}, r, nil
}

// RestoreSnapshot replaces the state of the whole cluster by a snapshot. Only the
// leader can do this. The raft configuration is not changed.
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
