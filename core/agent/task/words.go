// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"fmt"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/model"
)

// failure is the event of a start that came to nothing.
func failure(ev StartFailed) model.TaskEvent {
	switch ev.Cause {
	case InSetup:
		return model.TaskEvent{
			Type: model.TaskSetupFailure, SetupError: ev.Err, DisplayMessage: ev.Err,
			Details: map[string]string{"setup_error": ev.Err},
		}
	case InArtifact:
		return model.TaskEvent{
			Type: model.TaskArtifactDownloadFailed, DownloadError: ev.Err, DisplayMessage: ev.Err,
			Details: map[string]string{"download_error": ev.Err},
		}
	case InHook:
		return model.TaskEvent{
			Type: model.TaskHookFailed, Message: ev.Err, DisplayMessage: ev.Err,
			Details: map[string]string{"message": ev.Err},
		}
	}
	return model.TaskEvent{
		Type: model.TaskDriverFailure, DriverError: ev.Err, DisplayMessage: ev.Err,
		Details: map[string]string{"driver_error": ev.Err},
	}
}

func terminated(ev Exited) model.TaskEvent {
	text := "Exit Code: " + strconv.Itoa(ev.ExitCode)
	if ev.Signal != 0 {
		text += ", Signal: " + strconv.Itoa(ev.Signal)
	}
	if ev.Err == "" && ev.OOMKilled {
		ev.Err = "OOM Killed"
	}
	if ev.Err != "" {
		text += fmt.Sprintf(", Exit Message: %q", ev.Err)
	}
	e := model.TaskEvent{
		Type: model.TaskTerminated, DisplayMessage: text, ExitCode: ev.ExitCode, Signal: ev.Signal, Message: ev.Err,
		Details: map[string]string{
			"exit_code": strconv.Itoa(ev.ExitCode), "signal": strconv.Itoa(ev.Signal), "oom_killed": strconv.FormatBool(ev.OOMKilled),
		},
	}
	if ev.Err != "" {
		e.Details["exit_message"] = ev.Err
	}
	return e
}

func restarting(reason string, delay time.Duration) model.TaskEvent {
	return model.TaskEvent{
		Type: model.TaskRestarting, RestartReason: reason, StartDelay: int64(delay),
		DisplayMessage: restartText(reason, delay),
		Details:        map[string]string{"restart_reason": reason, "start_delay": strconv.FormatInt(int64(delay), 10)},
	}
}

// restartText repeats the reason unless it is the ordinary one, as the reference does.
func restartText(reason string, delay time.Duration) string {
	if reason == "" || reason == reasonWithin {
		return "Task restarting in " + delay.String()
	}
	return reason + " - Task restarting in " + delay.String()
}

// maxEvents is how many events of a task are kept and reported.
const maxEvents = 10

// note appends an event without touching the slice of an earlier state.
func (s *State) note(now time.Time, e model.TaskEvent) {
	e.Time = now.UnixNano()
	if e.Details == nil {
		e.Details = map[string]string{}
	}
	old := s.Report.Events
	if len(old) >= maxEvents {
		old = old[len(old)-maxEvents+1:]
	}
	events := make([]*model.TaskEvent, 0, len(old)+1)
	s.Report.Events = append(append(events, old...), &e)
}
