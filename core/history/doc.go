// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package history keeps the deployments and evaluations that were removed from the state,
// by garbage collection or by hand, for people who ask later what happened. It is a cache
// of one server on that server's own disk, bounded by age and by bytes: what is in it was
// true, and what is not in it is just not there. It is fed by the changes that Apply has
// committed, and never delays Apply.
//
// The store is a badger of its own, which is open only while something is written or read
// and a moment longer, so that a server at rest holds no memory for it. Keys are grouped
// in segments by time; the oldest segment is dropped as a whole, which frees its disk.
//
// core/server runs it, and core/endpoint reads it.
package history
