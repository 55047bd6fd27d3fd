// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package preempt chooses which allocs of one node make room for an alloc of a more
// important job. It chooses allocs of jobs with the lowest possible priorities, and of those as
// few as possible. It is pure.
//
// It does not decide which allocs may be preempted at all (model.Job.MayPreempt), or on which
// node (core/schedule). Only core/schedule imports it.
package preempt
