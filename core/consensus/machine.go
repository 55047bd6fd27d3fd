// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"io"
)

// Proposer writes one command to the log.
type Proposer interface {
	// Propose returns once the command is on the disks of a quorum and this
	// server applied it: the command's index in the log and the state
	// machine's answer. An answer that is an error comes back as err.
	//
	// An error of class Unavailable means that this server does not lead (it
	// then holds a *NotLeaderError) or lost its lead meanwhile; one of class
	// DeadlineExceeded that ctx ended first. Except with a *NotLeaderError the
	// command may have been or may yet be applied.
	Propose(ctx context.Context, command []byte) (index uint64, answer any, err error)
}

// Entry is one command of the log. It is an alias of an unnamed type so that a
// state machine can be written without importing this package.
type Entry = struct {
	Index uint64
	Data  []byte
}

// Snapshot is the state at one index. WriteTo may run for long and beside later
// calls of ApplyBatch.
type Snapshot = interface {
	// WriteTo writes the snapshot and gives up when ctx ends.
	WriteTo(ctx context.Context, w io.Writer) error
	// Release is called once, after the last WriteTo.
	Release()
}

// Fatal is an answer of a StateMachine that cannot go on: it has not applied the
// entry and applies none after it. See Config.Fatal.
type Fatal interface {
	error
	Fatal()
}

// StateMachine is what the log is applied to. Its methods are never called at
// the same time.
type StateMachine interface {
	// ApplyBatch applies the entries in order and returns one answer for each; an
	// answer that is an error comes back to who proposed the entry. The same entries on the same state give the same state on every server.
	ApplyBatch(entries []Entry) []any
	// Snapshot returns the present state quickly: it copies nothing large.
	Snapshot() (Snapshot, error)
	// Restore replaces the state by what a Snapshot wrote.
	Restore(r io.Reader) error
}
