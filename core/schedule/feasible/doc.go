// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package feasible owns the question whether a group may and can run on a node:
// Checker answers what never changes with load (datacenter, pool, constraints,
// drivers, volumes, networks), once per computed class; Fits answers what does
// (processor, memory, disk, cores, ports, devices). Fits is the one function
// that decides: the scheduler proposes by it and core/plan accepts by it.
//
// It does not choose between nodes (schedule/rank) nor decide what shall run
// (schedule/reconcile). It is pure. core/schedule and core/plan import it.
package feasible
