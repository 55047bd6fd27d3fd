// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package feasible decides whether a group can run on a node. Checker covers what does
// not depend on load (datacenter, pool, constraints, drivers, volumes, networks) and
// caches it per computed class. Fits covers what does (processor, memory, disk, cores,
// ports, devices); the scheduler proposes and core/plan accepts with this one
// function.
//
// The package does not choose between nodes (schedule/rank) or decide what should run
// (schedule/reconcile). It is pure. core/schedule and core/plan import it.
package feasible
