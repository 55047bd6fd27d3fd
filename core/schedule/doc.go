// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package schedule turns an evaluation and a View of the state into an Outcome: the
// plan, the evaluation's new status, and the explanation. It combines the three pure
// packages below it: reconcile decides what should change, feasible which nodes can
// run a group, rank which node is best.
//
// It reads no clock and generates no ids of its own, so equal inputs give equal
// Outcomes: job plan, the workers and tests call the same Process. core/worker and
// core/endpoint import it.
package schedule
