// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

var clusterTable = &single[model.Cluster]{
	heading: heading{name: TableCluster},
	at:      func(t *tables) **model.Cluster { return &t.cluster },
	record:  70,
}

// Cluster says which cluster the state belongs to; nil before its first leader.
func (v *View) Cluster() *model.Cluster { return v.t.cluster }

// BeginTerm notes that a leader begins its term with the entry that is being
// written, and makes the cluster's id if there is none yet.
func (tx *Tx) BeginTerm(clusterID, termID string) {
	old := tx.t.cluster
	tx.t.cluster = old.Begin(clusterID, model.ClusterTerm{ID: termID, Index: tx.index, After: tx.before})
	record(tx, clusterTable, old, tx.t.cluster)
}
