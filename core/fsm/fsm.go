// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Entry is a committed log entry. It is an alias of an unnamed type, as in
// core/consensus, so that neither package imports the other.
type Entry = struct {
	Index uint64
	Data  []byte
}

// FSM applies the log to the state. Its methods are called by one goroutine of
// core/consensus.
type FSM struct {
	store  *state.Store
	logger hclog.Logger
	reads  int              // the newest level
	unread *UnreadableError // the first entry or snapshot that could not be read
}

// UnreadableError means that an entry of the log or a snapshot cannot be read. It is the
// result of that entry and of all later ones: none of them is applied, because a server
// that skipped an entry would diverge from the others permanently. Its class is
// FailedPrecondition.
type UnreadableError struct {
	Index    uint64 // index of the entry, or of the last entry that the snapshot includes; 0 if that is unknown
	Snapshot bool
	Err      error
}

func (e *UnreadableError) Error() string {
	what := fmt.Sprintf("entry %d of the log", e.Index)
	if e.Snapshot {
		what = "a snapshot"
		if e.Index > 0 {
			what = fmt.Sprintf("a snapshot of the state at index %d", e.Index)
		}
	}
	return fmt.Sprintf("%s cannot be read, and nothing from there on is applied: %v; the state before it is kept; "+
		"if a newer version wrote it, run that version here and this server goes on from there; "+
		"if the disk is damaged, restore a snapshot or let this server join anew with an empty data directory", what, e.Err)
}

// Unwrap returns the cause with class FailedPrecondition.
func (e *UnreadableError) Unwrap() error { return errdefs.New(errdefs.FailedPrecondition, e.Err) }

// Fatal marks the error as fatal for this server: see consensus.Fatal.
func (e *UnreadableError) Fatal() {}

// New returns an FSM that writes to the store.
func New(store *state.Store, logger hclog.Logger) *FSM { return NewAt(Level, store, logger) }

// NewAt returns an FSM that reads only up to a level, as an older release does, for tests
// of mixed clusters.
func NewAt(level int, store *state.Store, logger hclog.Logger) *FSM {
	return &FSM{store: store, logger: logger.Named("fsm"), reads: level}
}

// Store returns the state.
func (f *FSM) Store() *state.Store { return f.store }

// batchBytes is the size of log entries that are applied in one transaction, unless a
// single entry is larger. A replay delivers large batches, and decoded commands take
// twenty times the memory of their encoding.
const batchBytes = 256 << 10

// ApplyBatch applies entries in few transactions and returns a result for each: nil,
// a classed error, or the command's answer. Entries that are older than the state
// are skipped. If an entry cannot be decoded, neither it nor any later entry is
// applied, and their results are *UnreadableError.
func (f *FSM) ApplyBatch(entries []Entry) []any {
	results := make([]any, len(entries))
	for from := 0; from < len(entries); {
		to, size := from, 0
		for to < len(entries) && (to == from || size+len(entries[to].Data) <= batchBytes) {
			size += len(entries[to].Data)
			to++
		}
		f.applyPart(entries[from:to], results[from:to])
		from = to
	}
	return results
}

// applyPart applies entries in one transaction.
func (f *FSM) applyPart(entries []Entry, results []any) {
	entries, commands := f.decode(entries)
	for i := len(entries); i < len(results); i++ {
		results[i] = f.unread
	}
	if len(entries) > 0 {
		f.applyAll(entries, commands, results)
	}
}

// decode decodes entries up to the first that cannot be decoded.
func (f *FSM) decode(entries []Entry) ([]Entry, []Command) {
	if f.unread != nil {
		return nil, nil
	}
	commands := make([]Command, len(entries))
	for i, e := range entries {
		c, err := decode(e.Data, f.reads)
		if err != nil {
			f.stop(&UnreadableError{Index: e.Index, Err: err})
			return entries[:i], commands[:i]
		}
		commands[i] = c
	}
	return entries, commands
}

// stop makes all later entries fail.
func (f *FSM) stop(err *UnreadableError) {
	f.unread = err
	f.logger.Error(err.Error())
}

func (f *FSM) applyAll(entries []Entry, commands []Command, results []any) {
	if f.apply(entries, commands, results) {
		return
	}
	// A command panicked, and its transaction was rolled back. Decode again, since
	// commands own their data, and apply one by one so that only that command fails.
	for i := range entries {
		c, _ := decode(entries[i].Data, f.reads) // it was decoded before
		if one := results[i : i+1]; !f.apply(entries[i:i+1], []Command{c}, one) {
			one[0] = errdefs.New(errdefs.Internal, fmt.Errorf("command %T at index %d changed nothing: it %w", c, entries[i].Index, ErrPanicked))
		}
	}
}

// ErrPanicked is wrapped by the error of a command, plan or decision that panicked
// because of a defect. A retry would panic again.
var ErrPanicked = errors.New("panicked, which is a defect of drover")

// apply runs commands in one transaction. It returns false and changes nothing if one
// of them panics.
func (f *FSM) apply(entries []Entry, commands []Command, results []any) (ok bool) {
	tx := f.store.Begin()
	defer func() {
		if ok {
			return
		}
		f.logger.Error("a command panicked", "first_index", entries[0].Index, "panic", recover(), "stack", string(debug.Stack()))
		tx.Rollback()
	}()
	for i, c := range commands {
		if entries[i].Index < tx.Index() {
			continue
		}
		tx.SetIndex(entries[i].Index)
		if err := allowed(tx, c); err != nil {
			results[i] = err
		} else if err := c.apply(tx); err != nil {
			results[i] = err
		} else if a, ok := c.(answering); ok {
			results[i] = a.answer()
		}
	}
	tx.Commit()
	return true
}
