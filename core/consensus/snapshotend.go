// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// snapshotEnd is raft's transport with one change: if a leader asks whether the logs agree
// at the last entry of this server's snapshot, the answer is yes, because a snapshot
// contains only committed entries. Raft would look for that entry in the log. There it is
// gone or, after an installed snapshot, may be a different entry, of a leader that has lost
// its lead. If entries of that old leader follow, raft would say no, for this entry and
// each one before it, and the server would get no more entries until the leader truncates
// its own log.
type snapshotEnd struct {
	*pipelines
	log  raft.LogStore
	raft *atomic.Pointer[raft.Raft] // nil until raft runs
	out  chan raft.RPC
	end  chan struct{}
	once sync.Once // raft closes its transport, and so does Node
}

func newSnapshotEnd(t *pipelines, log raft.LogStore, running *atomic.Pointer[raft.Raft]) *snapshotEnd {
	s := &snapshotEnd{pipelines: t, log: log, raft: running, out: make(chan raft.RPC), end: make(chan struct{})}
	go s.forward()
	return s
}

// Consumer implements raft.Transport.
func (t *snapshotEnd) Consumer() <-chan raft.RPC { return t.out }

// Close implements raft.WithClose.
func (t *snapshotEnd) Close() error {
	t.once.Do(func() { close(t.end) })
	return t.pipelines.Close()
}

func (t *snapshotEnd) forward() {
	in := t.pipelines.Consumer()
	for {
		select {
		case rpc := <-in:
			if r, ok := rpc.Command.(*raft.AppendEntriesRequest); ok && t.agrees(r) {
				r.PrevLogEntry, r.PrevLogTerm = 0, 0 // nothing to compare
			}
			select {
			case t.out <- rpc:
			case <-t.end:
				return
			}
		case <-t.end:
			return
		}
	}
}

// agrees reports whether a request begins right after this server's snapshot, and the log
// does not show it.
func (t *snapshotEnd) agrees(r *raft.AppendEntriesRequest) bool {
	var own raft.Log
	if r.PrevLogEntry == 0 || t.log.GetLog(r.PrevLogEntry, &own) == nil && own.Term == r.PrevLogTerm {
		return false
	}
	running := t.raft.Load()
	if running == nil {
		return false
	}
	stats := running.Stats()
	return stats["last_snapshot_index"] == strconv.FormatUint(r.PrevLogEntry, 10) && stats["last_snapshot_term"] == strconv.FormatUint(r.PrevLogTerm, 10)
}
