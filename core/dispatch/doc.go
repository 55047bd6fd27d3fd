// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dispatch is the servers' side of a node's session: registration, the
// leases by which nodes count as alive, the push of what each node shall run,
// and the batching of what nodes report into one Command at a time. It
// implements rpc.Servers and hands out the rpc.Node of each attached node. It
// places nothing (core/schedule) and carries nothing (core/rpc). core/server
// composes it.
//
// All nodes together cost three goroutines: one reads the change feed of allocs
// and marks what each session has to push, one commits updates, one looks at
// the leases while this server leads. A healthy node causes no log entry.
package dispatch
