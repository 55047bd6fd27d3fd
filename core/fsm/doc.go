// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package fsm owns the log: the commands, their encoding, their deterministic
// application to core/state, and the format of snapshots. One file per family of
// commands.
//
// Applying reads no clock and makes no ids: a command carries the ids and times
// that its proposer minted, so that every server reaches the same state. It does
// not know how entries are replicated (core/consensus) and decides nothing.
// Everything on the server side may import it to propose commands.
package fsm
