// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package history keeps the deployments and evaluations that were removed from the state,
// by garbage collection or by hand, for people who ask later what happened. It is a cache
// of one server on that server's own disk, bounded by age and by bytes: everything in it did
// happen, but something may have happened that is not in it. It stores the changes that Apply
// has committed, and never delays Apply.
//
// The store is a badger of its own, which is open only while something is written or read
// and a moment longer, so that a server at rest holds no memory for it. Keys are grouped
// in segments by time; the oldest segment is dropped as a whole, which frees its disk.
//
// Only core/server and cmd/drover/daemon import it; core/endpoint reads it through an
// interface.
package history
