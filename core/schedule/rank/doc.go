// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package rank chooses between feasible nodes: it owns the score of a node (bin
// packing or spreading, anti-affinity, affinity, spread, reschedule penalty) and a
// Picker that finds the best of all nodes in O(log n) per placement, using columns and
// tournament trees.
//
// It does not decide what is feasible (schedule/feasible) or what should be placed
// (schedule/reconcile). It is pure. Only core/schedule imports it.
package rank
