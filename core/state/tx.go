// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// Change is one row that a commit changed. Old is nil for a new row, New for a
// deleted one. Both are pointers to model types and must not be changed.
type Change struct {
	Table string
	Index uint64
	Old   any
	New   any
}

// Tx is a transaction: its writes become visible to readers at once with Commit. It
// may contain several log entries; SetIndex starts each of them. Derived values (job
// status, summaries, deployment counters, node usage) are updated at the end of each
// entry, so that the result does not depend on how entries are batched.
type Tx struct {
	s       *Store
	t       *tables
	index   uint64
	before  uint64 // index of the previous entry
	derived derived
	changes []Change
	restore bool // the rows that are written include derived values
}

// SetIndex starts a log entry: rows written from now on carry its index.
func (tx *Tx) SetIndex(index uint64) {
	tx.settle()
	tx.before, tx.index = tx.index, index
}

// Index returns the index of the current entry.
func (tx *Tx) Index() uint64 { return tx.index }

// View returns the state that the transaction sees: the committed state and its own
// writes so far. It is valid until the next write.
func (tx *Tx) View() *View { return &View{index: tx.index, t: tx.t} }

// Commit publishes the writes and wakes the watches and feeds that they concern.
func (tx *Tx) Commit() {
	tx.settle()
	s := tx.s
	view := &View{index: tx.index, t: tx.t.publish(s.View().t)}
	s.current.Store(view)
	if !tx.restore {
		s.watches.fire(tx.changes)
		s.feeds.send(tx.changes, tx.index)
	}
	tx.s = nil
	s.mu.Unlock()
}

// Rollback drops the writes: it rebuilds the tables that were written to from the
// published state. That is slow, but only a failed command needs it.
func (tx *Tx) Rollback() {
	s := tx.s
	s.writer = tx.t.rollback(s.View().t)
	tx.s = nil
	s.mu.Unlock()
}

// record adds a change for watches and feeds.
func record[R any](tx *Tx, of tableKind, old, row *R) {
	table := of.head()
	tx.t.changed[table.number] = tx.index
	if row == nil {
		tx.t.removed[table.number] = tx.index
	}
	if tx.restore {
		return
	}
	c := Change{Table: table.name, Index: tx.index}
	if old != nil {
		c.Old = old
	}
	if row != nil {
		c.New = row
	}
	tx.changes = append(tx.changes, c)
}

// seed writes the objects of a new cluster.
func (tx *Tx) seed() {
	tx.UpsertNamespace(&model.Namespace{Name: model.DefaultNamespace, Description: "Default shared namespace"})
	tx.UpsertNodePool(&model.NodePool{Name: model.NodePoolAll, Description: "Node pool with all nodes in the cluster."})
	tx.UpsertNodePool(&model.NodePool{Name: model.NodePoolDefault, Description: "Default node pool."})
	tx.SetSchedulerConfig(&model.SchedulerConfiguration{
		SchedulerAlgorithm: model.SchedulerAlgorithmBinpack,
		PreemptionConfig:   model.PreemptionConfig{SystemSchedulerEnabled: true},
	})
}
