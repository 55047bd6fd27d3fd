// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dispatch is the server side of a node's session: registration, leases, the
// push of assignments, and the batching of nodes' reports into one Command at a time.
// It implements rpc.Servers and provides the rpc.Node of each attached node. It does
// not place allocs (core/schedule) or transport messages (core/rpc). core/server
// composes it.
//
// All nodes together need three goroutines: one reads the change feed of allocs and
// marks what each session must push, one commits updates, and one checks the leases
// while this server is the leader. A healthy node causes no log entries.
package dispatch
