// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dispatch is the server side of a node's session: registration, leases, the
// push of assignments, and the batching of nodes' reports into one Command at a time.
// It implements rpc.Servers and provides the rpc.Node of each attached node. It does
// not place allocs (core/schedule) or transport messages (core/rpc). core/server
// composes it.
//
// Every server holds sessions. Two records say when nodes were last heard: each server has a
// hearing of its own nodes, and the leader has a roll of all nodes. Servers keep the roll up to
// date with reports (see Leader): each sends one message per interval, and another one after
// changes. So a healthy node causes no log entry, and its heartbeats go no further than its
// server. A server grants leases only while its reports reach the leader, and the leader judges
// a node by the reports of the node's server. hearing and roll are pure.
//
// All nodes together need a fixed number of goroutines per server: one reads the change
// feed of allocs and marks what each session must push, one commits updates, one reports
// to the leader, and one checks the roll while this server is the leader.
package dispatch
