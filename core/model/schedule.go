// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"github.com/drover-project/drover/core/cron"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TaskSchedule says when a task runs. Outside of that time it is paused: it is stopped and
// does not start.
type TaskSchedule struct {
	Cron *TaskScheduleCron
}

// TaskScheduleCron is the window in which a task runs.
type TaskScheduleCron struct {
	Start    string // cron expression: the window opens
	End      string // cron expression, or only a minute and an hour: the window closes
	Timezone string // IANA name, or "Local" for that of the node; "" means UTC
}

// Values of TaskState.Paused; "" means that the task runs as if it had no schedule.
const (
	PausedBySchedule = "scheduled_pause" // outside its window
	PausedByOperator = "force_pause"
	RunByOperator    = "force_run" // the window does not matter
)

// What an operator can tell a task with a schedule.
const (
	ScheduleStatePause     = "pause"     // do not run
	ScheduleStateRun       = "run"       // run, whatever the time is
	ScheduleStateScheduled = "scheduled" // follow the schedule
)

// CheckScheduleState refuses what is none of the ScheduleState constants.
func CheckScheduleState(state string) error {
	switch state {
	case ScheduleStatePause, ScheduleStateRun, ScheduleStateScheduled:
		return nil
	}
	return errdefs.InvalidArgumentf("schedule state %q is unknown; use pause, run or scheduled", state)
}

// IsPaused reports whether a task does not run because of its schedule or an operator.
func (s *TaskState) IsPaused() bool {
	return s.Paused == PausedBySchedule || s.Paused == PausedByOperator
}

// Window returns the window of the schedule.
func (s *TaskSchedule) Window() (*cron.Window, error) {
	if s.Cron == nil {
		return nil, errdefs.InvalidArgumentf("the schedule has no cron block, which says when the task runs")
	}
	w, err := cron.NewWindow(s.Cron.Start, s.Cron.End, s.Cron.Timezone)
	if err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, err)
	}
	return w, nil
}

// validateSchedule checks the schedule of a task.
func (t *Task) validateSchedule(p *ValidationError) {
	if t.Schedule == nil {
		return
	}
	if _, err := t.Schedule.Window(); err != nil {
		p.addf("Task schedule validation failed: %w", err)
	}
	if l := t.Lifecycle; l != nil && !l.Sidecar {
		p.addf("Task schedule validation failed: a %s task that ends by itself cannot have a schedule, because the group waits for it", l.Hook)
	}
}
