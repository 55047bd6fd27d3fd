// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plan owns the leader's acceptance of plans. Workers plan concurrently on
// states that may be outdated. The Applier checks each node's part of a plan with
// feasible.Fits against the newest state plus the plans that are accepted but not
// applied yet. It commits what fits, in groups, and returns the rest with reasons.
//
// It makes no decisions of its own. core/worker submits plans, core/server runs the
// Applier.
package plan
