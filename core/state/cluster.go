// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// TableCluster is the name of the table of cluster.
const TableCluster = "cluster"

var clusterTable = &single[model.Cluster]{
	heading: heading{name: TableCluster},
	record:  70,
}

// Cluster returns the cluster to which the state belongs; nil before its first leader.
func (v *View) Cluster() *model.Cluster { return clusterTable.in(v.t) }

// BeginTerm records that a leader begins its term with the current log entry. It sets
// the cluster's id if there is none yet.
func (tx *Tx) BeginTerm(clusterID, termID string) {
	old := clusterTable.in(tx.t)
	clusterTable.set(tx.t, old.Begin(clusterID, model.ClusterTerm{ID: termID, Index: tx.index, After: tx.before}))
	record(tx, clusterTable, old, clusterTable.in(tx.t))
}

// Level returns the capability level of the cluster; it is at least 1.
func (v *View) Level() int {
	if c := v.Cluster(); c != nil {
		return max(1, c.Level)
	}
	return 1
}

// RaiseLevel raises the capability level. It does nothing if the level is not higher than
// the present one. There must be a cluster.
func (tx *Tx) RaiseLevel(level int, release string) {
	old := clusterTable.in(tx.t)
	if level <= max(1, old.Level) {
		return
	}
	raised := *old
	raised.Level, raised.Release = level, release
	clusterTable.set(tx.t, &raised)
	record(tx, clusterTable, old, &raised)
}
