// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package model owns the nouns of Drover: Job, TaskGroup, Task, Allocation,
// Evaluation, Plan, Deployment, Node, NodePool, Namespace and their parts. Each file
// holds one noun with its validation, copy and derived values.
// docs/design/nomenclature.md defines the words.
//
// Values are canonical: every default is filled in (only core/jobspec does so), and
// their JSON is what the HTTP API returns, so there is no second copy of the nouns.
// Durations are nanoseconds, sizes have the unit in the field's name (MB means
// 1024*1024 bytes), and times are Unix nanoseconds unless the type is time.Time.
//
// Values in state are shared between goroutines and never changed in place: make a
// Copy, change it, and write it back through core/state.
//
// The package is pure: no clock, no randomness, no I/O. It imports only core/cron and
// sdk/errdefs. Everything in core may import it.
package model
