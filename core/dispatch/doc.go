// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dispatch is the server side of a node's session: registration, leases, the
// push of assignments, and the batching of nodes' reports into one Command at a time.
// It implements rpc.Servers and provides the rpc.Node of each attached node. It does
// not place allocs (core/schedule) or transport messages (core/rpc). core/server
// composes it.
//
// Every server holds sessions. What one knows of its nodes is its hearing; what the leader
// knows of all is its roll, which servers keep true by reports (see Leader): one message
// per server and interval, and one for changes. So a healthy node causes no log entry and
// no message beyond its server. A server grants leases only while the leader hears of it,
// and the leader judges a node by the server that hears it. hearing and roll are pure.
//
// All nodes together need a fixed number of goroutines per server: one reads the change
// feed of allocs and marks what each session must push, one commits updates, one reports
// to the leader, and one checks the roll while this server is the leader.
package dispatch
