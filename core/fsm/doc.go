// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package fsm owns the log: the commands, their encoding, their deterministic
// application to core/state, and the format of snapshots. There is one file per family
// of commands.
//
// Applying a command reads no clock and generates no ids: a command contains the ids and
// times that its proposer generated, so that every server reaches the same state. The
// package does not know how entries are replicated (core/consensus) and makes no decisions.
// Every package on the server side may import it for the types of the commands.
package fsm
