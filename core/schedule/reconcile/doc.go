// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package reconcile owns the difference between what a job asks for and what
// exists: which allocs to place, stop, update in place or destructively, migrate,
// declare lost or unknown, replace now or later, and how a deployment moves on.
//
// It does not choose nodes (core/schedule does, with feasible and rank). It is
// pure: the time and new ids come in with the Input. Only core/schedule imports it.
package reconcile
