// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

var clusterTable = &single[model.Cluster]{
	heading: heading{name: TableCluster},
	at:      func(t *tables) **model.Cluster { return &t.cluster },
	record:  70,
}

// Cluster returns the cluster to which the state belongs; nil before its first leader.
func (v *View) Cluster() *model.Cluster { return v.t.cluster }

// BeginTerm records that a leader begins its term with the current log entry. It sets
// the cluster's id if there is none yet.
func (tx *Tx) BeginTerm(clusterID, termID string) {
	old := tx.t.cluster
	tx.t.cluster = old.Begin(clusterID, model.ClusterTerm{ID: termID, Index: tx.index, After: tx.before})
	record(tx, clusterTable, old, tx.t.cluster)
}
