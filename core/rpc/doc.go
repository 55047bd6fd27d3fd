// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package rpc is where servers and nodes meet: the messages of a node's session
// and the two interfaces over which they travel. Servers is what a node asks of
// the servers (core/dispatch implements it), Node is what the servers ask of a
// node (core/agent implements it).
//
// In one process the two sides hold each other's implementation: there is no
// carrier. Between machines a gRPC connection stands between: Serve puts a
// Servers behind a listener, Dial gives a node the Servers behind an address.
// What travels is shared in one process and must not be changed by who gets it.
//
// The wire types are private. The package decides nothing: registration,
// liveness and what a node shall run are core/dispatch.
package rpc
