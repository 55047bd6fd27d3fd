// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// failure returns the event of a failed start.
func failure(ev StartFailed) model.TaskEvent {
	e := failureOf(ev)
	e.Explain(ev.Reason, ev.Details, ev.RetryAfter)
	return e
}

func failureOf(ev StartFailed) model.TaskEvent {
	switch ev.Cause {
	case InSetup:
		return model.EventSetupFailure(ev.Err)
	case InArtifact:
		return model.EventArtifactFailed(ev.Err)
	case InValidation:
		return model.EventFailedValidation(ev.Err)
	case InHook:
		return model.EventMessage(model.TaskHookFailed, ev.Err)
	}
	return model.EventDriverFailure(ev.Err)
}

// moment returns a time as reports have it: in whole milliseconds. A finer one tells nobody
// more, and the times of reports are most of their bytes in the log of the servers.
func moment(now time.Time) time.Time { return now.UTC().Truncate(time.Millisecond) }

// note appends an event without touching the slice of an earlier state.
func (s *State) note(now time.Time, e model.TaskEvent) {
	e.Time = moment(now).UnixNano()
	e.CutTexts()
	s.Noted++
	old := s.Report.Events
	if len(old) >= model.MaxTaskEvents {
		old = old[len(old)-model.MaxTaskEvents+1:]
	}
	events := make([]*model.TaskEvent, 0, len(old)+1)
	s.Report.Events = append(append(events, old...), &e)
}
