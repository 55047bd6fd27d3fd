// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/drover-project/drover/core/model"

// Cluster says which cluster the state belongs to; nil before its first leader.
func (v *View) Cluster() *model.Cluster { return v.t.cluster }

// BeginTerm notes that a leader begins its term with the entry that is being
// written, and makes the cluster's id if there is none yet.
func (tx *Tx) BeginTerm(clusterID, termID string) {
	tx.t.cluster = tx.t.cluster.Begin(clusterID, model.ClusterTerm{ID: termID, Index: tx.index, After: tx.before})
}
