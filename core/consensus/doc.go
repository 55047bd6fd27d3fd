// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package consensus replicates the log of commands over the servers and applies it to
// the state machine. It owns raft: membership, leadership, snapshots and the log on
// disk (core/consensus/badgerlog). It is the only package that imports hashicorp/raft.
// It does not interpret commands: core/fsm does, through the StateMachine interface.
// All other packages write through core/propose. core/server composes it.
package consensus
