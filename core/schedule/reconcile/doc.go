// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package reconcile compares what a job asks for with what exists. It decides which
// allocs to place, stop, update in place or destructively, migrate, mark as lost or
// unknown, and replace now or later, and how a deployment progresses.
//
// It does not choose nodes (core/schedule does, with feasible and rank). It is pure:
// the time and new ids are part of the Input. Only core/schedule imports it.
package reconcile
