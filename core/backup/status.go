// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package backup

import (
	"context"
	"slices"
	"time"
)

// Status has the results of an Agent since it began, and the contents of its store.
type Status struct {
	Store    string
	Prefix   string
	Interval time.Duration
	Retain   int // 0 means all
	// Taken, Failed and Removed count since the agent began; Failures counts the failures
	// since the last success.
	Taken, Failed, Removed, Failures uint64
	// LastIndex is the index of the state of the last snapshot, 0 if this agent took none.
	LastIndex uint64
	// LastError is why the last round stored no snapshot, or could not remove old ones; ""
	// if it did both.
	LastError   string
	LastFailure time.Time
	// Next is when the next snapshot is due; zero if that is unknown yet.
	Next time.Time
	// Snapshots are the snapshots in the store when it was last listed, the oldest first.
	Snapshots []Stored
}

// Status returns the status of the agent.
func (a *Agent) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.status
	out.Snapshots = slices.Clone(out.Snapshots)
	return out
}

// Look lists the store and returns the status, without taking a snapshot.
func (a *Agent) Look(ctx context.Context) (Status, error) {
	if _, err := a.stored(ctx); err != nil {
		return Status{}, err
	}
	return a.Status(), nil
}
