// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package schedule owns the way from an evaluation and a View of the state to
// an Outcome: the plan, what becomes of the evaluation, and why. It joins the three pure
// packages below it: reconcile says what shall change, feasible what a node can
// take, rank which node is best.
//
// It reads no clock and makes no ids of its own, so the same inputs give the
// same Outcome: job plan, the workers and tests call the same Process.
// core/worker and core/endpoint import it.
package schedule
