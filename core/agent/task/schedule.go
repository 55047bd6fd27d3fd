// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"time"

	"github.com/drover-project/drover/core/model"
)

// pause returns whether and why the task is to be paused, as model.TaskState.Paused.
func pause(spec Spec, s State, now time.Time) string {
	switch {
	case spec.Window == nil: // a newer version of the job may have no schedule
		return ""
	case s.Order == model.ScheduleStatePause:
		return model.PausedByOperator
	case s.Order == model.ScheduleStateRun:
		return model.RunByOperator
	case !spec.Window.Open(now):
		return model.PausedBySchedule
	}
	return ""
}

// Due reports whether a Look would change the task: its window has opened or closed.
func Due(spec Spec, s State, now time.Time) bool {
	return s.Phase != Dead && (spec.Window != nil || s.Report.Paused != "") && pause(spec, s, now) != s.Report.Paused
}

// lookEvery limits how long nobody looks at a window: a clock may be set, and a machine may
// sleep.
const lookEvery = time.Minute

// NextLook returns when to ask Due again; zero means never.
func NextLook(spec Spec, s State, now time.Time) time.Time {
	if spec.Window == nil || s.Phase == Dead || s.Order == model.ScheduleStatePause || s.Order == model.ScheduleStateRun {
		return time.Time{}
	}
	at := spec.Window.Next(now)
	if limit := now.Add(lookEvery); at.IsZero() || at.After(limit) {
		return limit
	}
	return at
}

// off reports whether the task is paused.
func (m *machine) off() bool { return m.s.Report.IsPaused() }

func (m *machine) direct(ev Direct) {
	if m.s.Phase == Dead {
		return
	}
	m.s.Order = ev.State
	m.look()
}

// look pauses the task or has it run. A task whose turn has not come is only marked.
func (m *machine) look() {
	was, now := m.off(), pause(m.spec, m.s, m.now)
	if m.s.Phase == Dead || now == m.s.Report.Paused {
		return
	}
	m.s.Report.Paused = now
	if m.off() {
		m.s.note(m.now, model.EventPausing(now))
	} else {
		m.s.note(m.now, model.EventResuming(now))
	}
	switch off := m.off(); {
	case off == was || m.s.KillWanted:
	case off:
		m.pause()
	case m.s.Phase == Off:
		m.start()
	}
}

// pause stops a task that runs or will run by itself. A run that is ending is awaited.
func (m *machine) pause() {
	switch m.s.Phase {
	case Starting:
		m.s.Pausing = true
		m.do(GiveUp{Run: m.s.Run})
	case Running:
		m.s.Pausing = true
		m.stop()
	case Stopping:
		m.s.Pausing = true
	case Backoff:
		m.rest()
	}
}

// rest makes the task Off.
func (m *machine) rest() {
	m.s.Phase, m.s.WakeAt, m.s.OffSince = Off, time.Time{}, m.now.UTC()
	m.s.Pausing, m.s.RestartWanted, m.s.Unfit = false, false, false
	m.s.Report.State = model.TaskStatePending
}

// paused is called when a run that was to pause has ended: the window may have opened again
// since. Neither the pause nor the next start counts as a restart.
func (m *machine) paused() {
	if m.off() {
		m.rest()
		return
	}
	m.s.Report.State = model.TaskStatePending
	m.start()
}
