// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "github.com/drover-project/drover/sdk/errdefs"

// ReportBounds limits the size of a node's report on one alloc.
var ReportBounds = Bounds{Text: 64 << 10, Entries: 4096, Total: 1 << 20}

const (
	// maxReportedID is the maximum length of an alloc id in a report, in bytes.
	maxReportedID = 64
	// maxReportedEvents is the maximum sequence number of an event.
	maxReportedEvents = 1 << 40
)

// Validate returns an error of class InvalidArgument if the report cannot come from a
// correct node.
func (r *AllocReport) Validate() error {
	if r == nil {
		return errdefs.InvalidArgumentf("an alloc's report is empty; send its id and its changes")
	}
	if !validReportedID(r.ID) {
		return errdefs.InvalidArgumentf("%.80q is not an id of an alloc; it has 1 to %d letters, digits, dashes, dots or underscores", r.ID, maxReportedID)
	}
	switch r.ClientStatus {
	case AllocClientStatusPending, AllocClientStatusRunning, AllocClientStatusComplete, AllocClientStatusFailed:
	default:
		return errdefs.InvalidArgumentf("alloc %q: a node cannot report the client status %.80q; it is pending, running, complete or failed", r.ID, r.ClientStatus)
	}
	if err := ReportBounds.Check("alloc "+r.ID+": Report", r); err != nil {
		return err
	}
	for name, t := range r.Tasks {
		if err := t.validate(); err != nil {
			return errdefs.InvalidArgumentf("alloc %q, task %.80q: %w", r.ID, name, err)
		}
	}
	return nil
}

func validReportedID(id string) bool {
	if id == "" || len(id) > maxReportedID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return true
}

func (r *TaskReport) validate() error {
	switch r.State {
	case TaskStatePending, TaskStateRunning, TaskStateDead:
	default:
		return errdefs.InvalidArgumentf("there is no task state %.80q; it is pending, running or dead", r.State)
	}
	if len(r.Events) > MaxTaskEvents || r.Before > maxReportedEvents {
		return errdefs.InvalidArgumentf("%d events after %d others are too many; the newest %d are kept", len(r.Events), r.Before, MaxTaskEvents)
	}
	return nil
}
