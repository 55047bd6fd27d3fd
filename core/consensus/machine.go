// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"io"
)

// Entry is one command of the log. It is an alias of an unnamed type, so that a state
// machine can be implemented without importing this package.
type Entry = struct {
	Index uint64
	Data  []byte
}

// Snapshot is the state at one index. WriteTo may take long and run concurrently with
// later calls of ApplyBatch.
type Snapshot = interface {
	// WriteTo writes the snapshot and aborts when ctx ends.
	WriteTo(ctx context.Context, w io.Writer) error
	// Release is called once, after the last WriteTo.
	Release()
}

// Fatal is a result of a StateMachine that cannot continue: it has not applied the
// entry, or restored the snapshot, and applies no entry after it. See Config.Fatal.
type Fatal interface {
	error
	Fatal()
}

// StateMachine is the state machine to which the log is applied. Its methods are never
// called concurrently.
type StateMachine interface {
	// ApplyBatch applies the entries in order and returns one result for each; a
	// result that is an error is returned to the proposer of the entry. It must be
	// deterministic: the same entries on the same state give the same state on every
	// server.
	ApplyBatch(entries []Entry) []any
	// Snapshot returns the current state. It must be fast, so it must not copy the
	// state.
	Snapshot() (Snapshot, error)
	// Restore replaces the state by a stored Snapshot. If it fails, the state is as
	// before. An error that is Fatal means that the machine cannot read what the other
	// servers can.
	Restore(r io.Reader) error
}
