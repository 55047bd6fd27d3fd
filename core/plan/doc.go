// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plan owns the leader's acceptance of plans. Workers plan at the same
// time on states that may be old; the Applier looks at each node's part of a
// plan with the same feasible.Fits on the newest state plus what it has accepted
// but the log has not applied, commits what fits in groups and gives the rest back with reasons.
//
// It makes no decisions of its own. core/worker submits to it, core/server runs it.
package plan
