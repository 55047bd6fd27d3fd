// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package rank owns the choice between feasible nodes: the score of a node
// (bin packing or spreading, anti-affinity, affinity, spread, reschedule penalty)
// and a Picker that finds the best of all nodes in O(log n) per placement, from
// columns and tournament trees.
//
// It does not know what is feasible (schedule/feasible) nor why something is
// placed (schedule/reconcile). It is pure. Only core/schedule imports it.
package rank
