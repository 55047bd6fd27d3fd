// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package rpc connects servers and nodes: it defines the messages of a node's session
// and the two interfaces that exchange them. Servers has the requests of a node to
// servers (core/dispatch implements it), Node the requests of servers to a node
// (core/agent implements it).
//
// If both sides run in one process, they call each other's implementation directly.
// Between machines they use a gRPC connection: Serve offers a Servers on a listener,
// Dial returns a Servers for an address. Messages are shared within a process, so
// receivers must not change them.
//
// The wire types are private. The package makes no decisions: registration, liveness
// and assignments belong to core/dispatch.
package rpc
