// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/sdk/errdefs"
)

// adapter implements raft's FSM interfaces with our StateMachine.
type adapter struct {
	machine StateMachine
	// closing ends when the Node closes, which aborts a running snapshot.
	closing context.Context
	// fatal is called when the state machine cannot continue; nil for a stopped server's log.
	fatal func(error)
}

var _ raft.BatchingFSM = adapter{}

func (a adapter) Apply(log *raft.Log) any {
	return a.ApplyBatch([]*raft.Log{log})[0]
}

// ApplyBatch applies the commands of the batch, and returns nil for entries that are
// not commands.
func (a adapter) ApplyBatch(logs []*raft.Log) []any {
	entries := make([]Entry, 0, len(logs))
	for _, log := range logs {
		if log.Type == raft.LogCommand {
			entries = append(entries, Entry{Index: log.Index, Data: log.Data})
		}
	}
	if len(entries) == 0 {
		return make([]any, len(logs))
	}
	answers := a.machine.ApplyBatch(entries)
	if err, ok := answers[len(answers)-1].(Fatal); ok {
		a.fatal(err)
	}
	if len(entries) == len(logs) {
		return answers
	}
	all := make([]any, len(logs))
	next := 0
	for i, log := range logs {
		if log.Type == raft.LogCommand {
			all[i] = answers[next]
			next++
		}
	}
	return all
}

func (a adapter) Snapshot() (out raft.FSMSnapshot, err error) {
	defer panics.Handle(func(p *panics.Panic) { out, err = nil, snapshotPanicked(p) })
	snapshot, err := a.machine.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("take a snapshot of the state: %w", err)
	}
	return persister{snapshot: snapshot, closing: a.closing}, nil
}

// snapshotPanicked returns the error of a snapshot that panicked. The log is complete
// without it, so the server continues, and raft tries again at its interval.
func snapshotPanicked(p *panics.Panic) error {
	return errdefs.Internalf("the snapshot panicked, which is a defect of drover: %v\n%s", p.Value, p.Stack)
}

func (a adapter) Restore(r io.ReadCloser) error {
	if err := a.machine.Restore(r); err != nil {
		err = fmt.Errorf("restore the state from a snapshot: %w", err)
		if f := Fatal(nil); errors.As(err, &f) && a.fatal != nil {
			a.fatal(err) // raft would try an older snapshot, or ask the leader for this one again
		}
		return errors.Join(err, r.Close())
	}
	return r.Close()
}

type persister struct {
	snapshot Snapshot
	closing  context.Context
}

func (p persister) Persist(sink raft.SnapshotSink) error {
	if err := p.write(sink); err != nil {
		return errors.Join(fmt.Errorf("write the snapshot %s: %w", sink.ID(), err), sink.Cancel())
	}
	return sink.Close()
}

func (p persister) write(sink raft.SnapshotSink) (err error) {
	defer panics.Handle(func(p *panics.Panic) { err = snapshotPanicked(p) })
	return p.snapshot.WriteTo(p.closing, sink)
}

func (p persister) Release() { p.snapshot.Release() }
