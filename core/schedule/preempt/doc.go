// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package preempt chooses which allocs of one node make room for an alloc of a more
// important job. Who may be preempted at all is decided by model.Job.MayPreempt, and
// between nodes core/schedule chooses, which alone imports the package.
//
// The choice touches jobs of as low a priority as possible first, and among those as few
// allocs as possible. It is pure.
package preempt
