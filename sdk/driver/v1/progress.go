// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"
)

// Progress says how far the start of a task has come, such as the download of its image.
// Each Progress of a task replaces the one before, and the end of StartTask removes it.
// Send at most a few per second and task.
type Progress struct {
	// Phase says what is being done in a few words, such as "Downloading image". A Progress
	// with an empty Phase says that the previous phase is over and that the next one has no
	// progress.
	Phase string
	// Done is how much is done of Total, both in Unit. A Total of 0 means that it is not
	// known (yet).
	Done  int64
	Total int64
	// Unit is UnitBytes, or another plural such as "layers".
	Unit string
}

// UnitBytes is the unit of data, which is shown in KiB, MiB and so on.
const UnitBytes = "bytes"

// String returns the progress as users see it, such as "Downloading image: 34 % (120.0 MiB
// of 350.0 MiB)".
func (p Progress) String() string {
	switch {
	case p.Phase == "":
		return ""
	case p.Total > 0:
		done, percent := p.amount(p.Done), 100*float64(min(max(p.Done, 0), p.Total))/float64(p.Total)
		if p.Unit != UnitBytes {
			done = fmt.Sprint(p.Done) // as in "3 of 10 layers"
		}
		return fmt.Sprintf("%s: %.0f %% (%s of %s)", p.Phase, percent, done, p.amount(p.Total))
	case p.Done > 0:
		return fmt.Sprintf("%s: %s so far", p.Phase, p.amount(p.Done))
	}
	return p.Phase
}

func (p Progress) amount(n int64) string {
	if p.Unit != UnitBytes {
		return fmt.Sprintf("%d %s", n, p.Unit)
	}
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// withoutProgress removes the progress from a driver's event, for hosts that do not ask for
// it: they would keep each progress as an event of the task.
func withoutProgress(e TaskEvent) *driverv1.TaskEventsResponse {
	if e.Progress != nil && e.Message == "" {
		return nil
	}
	e.Progress = nil
	return eventToPB(e)
}

func eventToPB(e TaskEvent) *driverv1.TaskEventsResponse {
	out := &driverv1.TaskEventsResponse{TaskId: e.TaskID, Time: timeToPB(e.Time), Message: e.Message, Annotations: e.Annotations}
	if p := e.Progress; p != nil {
		out.Progress = &driverv1.Progress{Phase: p.Phase, Done: p.Done, Total: p.Total, Unit: p.Unit}
	}
	return out
}

func eventFromPB(m *driverv1.TaskEventsResponse) TaskEvent {
	e := TaskEvent{TaskID: m.GetTaskId(), Time: timeFromPB(m.GetTime()), Message: m.GetMessage(), Annotations: m.GetAnnotations()}
	if p := m.GetProgress(); p != nil {
		e.Progress = &Progress{Phase: p.GetPhase(), Done: p.GetDone(), Total: p.GetTotal(), Unit: p.GetUnit()}
	}
	return e
}
