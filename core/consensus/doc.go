// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package consensus replicates the log of commands over the servers and feeds
// it to the state machine. It owns raft: membership, leadership, snapshots, the
// log on disk (core/consensus/badgerlog), and it is the only package that
// imports hashicorp/raft. It does not know what a command means: core/fsm does,
// through the StateMachine interface, and everything else writes through
// Proposer. core/server composes it; anyone on the server side may hold a
// Proposer.
package consensus
