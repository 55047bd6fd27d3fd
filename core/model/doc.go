// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package model owns the nouns of Drover: Job, TaskGroup, Task, Allocation,
// Evaluation, Plan, Deployment, Node, NodePool, Namespace and what they are
// made of. One file holds one noun with its validation, copy and derived
// values. docs/design/nomenclature.md fixes what each word means.
//
// Values are canonical: every default has been filled in (core/jobspec is the
// one place that does so) and their JSON is what the HTTP API reads back, so
// there is no second copy of the nouns. Durations are nanoseconds, sizes are
// what the field name says (MB is 1024*1024 bytes), times are Unix nanoseconds
// unless the type is time.Time.
//
// Values in state are shared between goroutines and never changed in place:
// take a Copy, change it, write it back through core/state.
//
// The package is pure: no clock, no randomness, no I/O. It imports only
// sdk/errdefs and everything in core may import it.
package model
