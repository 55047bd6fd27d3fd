// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// evenTens is a window that is open in seconds 0 to 9, 20 to 29 and so on after t0.
type evenTens struct{}

func (evenTens) Open(at time.Time) bool { return int(at.Sub(t0)/(10*time.Second))%2 == 0 }
func (evenTens) Next(after time.Time) time.Time {
	return after.Truncate(10 * time.Second).Add(10 * time.Second)
}

func scheduled(change func(*task.Spec)) task.Spec {
	return spec(func(s *task.Spec) {
		s.Window = evenTens{}
		if change != nil {
			change(s)
		}
	})
}

const (
	closes = "The time is outside the schedule of the task: it does not run"
	opens  = "The schedule has the task run"
)

func TestATaskRunsInItsWindowAndNoPauseCountsAsARestart(t *testing.T) {
	s := play(t, scheduled(nil), []at{
		{1, task.Begin{}, task.Starting, "start 1", "Building Task Directory"},
		{2, task.Started{Run: 1}, task.Running, "", "Task started by client"},
		{3, task.Look{}, task.Running, "", ""},
		{10, task.Look{}, task.Stopping, "stop 1 5s", closes},
		{11, task.Exited{Run: 1, ExitCode: 130}, task.Off, "destroy 1", "Exit Code: 130"},
		{12, task.Restart{Reason: "template"}, task.Off, "", ""},
		{20, task.Look{}, task.Starting, "start 2", opens},
		{21, task.Started{Run: 2}, task.Running, "", "Task started by client"},
		{30, task.Look{}, task.Stopping, "stop 2 5s", closes},
		{40, task.Look{}, task.Stopping, "", opens}, // it took long to end
		{41, task.Exited{Run: 2, ExitCode: 1}, task.Starting, "destroy 2; start 3", "Exit Code: 1"},
		{50, task.Look{}, task.Starting, "give up 3", closes},
		{51, task.StartFailed{Run: 3, Err: "canceled", Retry: true}, task.Off, "", ""},
		{52, task.Kill{}, task.Dead, "", "Task successfully killed"},
	})
	if s.Report.Restarts != 0 || s.Report.Failed || s.Report.Paused != "" {
		t.Errorf("%d restarts, failed %t, paused %q", s.Report.Restarts, s.Report.Failed, s.Report.Paused)
	}
}

func TestATaskWhoseTurnComesOutsideItsWindowWaitsForIt(t *testing.T) {
	s := play(t, scheduled(nil), []at{
		{11, task.Begin{}, task.Off, "", closes},
		{20, task.Look{}, task.Starting, "start 1", opens},
		{21, task.StartFailed{Run: 1, Err: "no", Retry: true}, task.Backoff, "wake at 25s", "no; Task restarting in 4s"},
		{30, task.Look{}, task.Off, "", closes},
	})
	if s.Report.State != model.TaskStatePending || s.Report.Paused != model.PausedBySchedule {
		t.Errorf("state %s, paused %q", s.Report.State, s.Report.Paused)
	}
}

func TestAnOperatorPausesATaskAndHasItRunWhateverTheTimeIs(t *testing.T) {
	play(t, scheduled(nil), []at{
		{1, task.Begin{}, task.Starting, "start 1", "Building Task Directory"},
		{2, task.Started{Run: 1}, task.Running, "", "Task started by client"},
		{3, task.Direct{State: "pause"}, task.Stopping, "stop 1 5s", "An operator paused the task; drover alloc pause -state=scheduled has it follow its schedule again"},
		{4, task.Exited{Run: 1}, task.Off, "destroy 1", "Exit Code: 0"},
		{25, task.Look{}, task.Off, "", ""},
		{31, task.Direct{State: "run"}, task.Starting, "start 2", "An operator has the task run whatever its schedule says; drover alloc pause -state=scheduled ends that"},
		{32, task.Started{Run: 2}, task.Running, "", "Task started by client"},
		{33, task.Look{}, task.Running, "", ""},
		{34, task.Direct{State: "scheduled"}, task.Stopping, "stop 2 5s", closes},
	})
}

func TestATaskThatIsKilledOrIsToWaitForItsTurnWhileItPausesDoesSo(t *testing.T) {
	play(t, scheduled(nil), []at{
		{1, task.Begin{}, task.Starting, "start 1", "Building Task Directory"},
		{2, task.Started{Run: 1}, task.Running, "", "Task started by client"},
		{10, task.Look{}, task.Stopping, "stop 1 5s", closes},
		{11, task.Rerun{Reason: "r"}, task.Stopping, "", "r"},
		{12, task.Exited{Run: 1}, task.Waiting, "destroy 1", "Exit Code: 0; Task restarting in 0s"},
		{13, task.Begin{}, task.Off, "", ""},
		{20, task.Look{}, task.Starting, "start 2", opens},
		{21, task.Started{Run: 2}, task.Running, "", "Task started by client"},
		{30, task.Look{}, task.Stopping, "stop 2 5s", closes},
		{31, task.Kill{}, task.Stopping, "", ""},
		{32, task.Exited{Run: 2}, task.Dead, "destroy 2", "Exit Code: 0; Task successfully killed"},
	})
}

func TestABatchTaskThatEndedIsDoneAndOneThatWasPausedIsNot(t *testing.T) {
	sp := scheduled(func(s *task.Spec) { s.EndsWell = true })
	s := play(t, sp, []at{
		{1, task.Begin{}, task.Starting, "start 1", "Building Task Directory"},
		{2, task.Started{Run: 1}, task.Running, "", "Task started by client"},
		{10, task.Look{}, task.Stopping, "stop 1 5s", closes},
		{11, task.Exited{Run: 1}, task.Off, "destroy 1", "Exit Code: 0"},
		{20, task.Look{}, task.Starting, "start 2", opens},
		{21, task.Started{Run: 2}, task.Running, "", "Task started by client"},
		{22, task.Exited{Run: 2}, task.Dead, "destroy 2", "Exit Code: 0"},
		{30, task.Look{}, task.Dead, "", ""},
	})
	if s.Report.Failed || task.Due(sp, s, t0.Add(30*time.Second)) || !task.NextLook(sp, s, t0).IsZero() {
		t.Error("a task that is done is looked at again")
	}
}

func TestAnAgentThatStartsAgainGoesOnWithAPause(t *testing.T) {
	sp := scheduled(nil)
	s, _ := task.Step(sp, task.New(t0), task.Begin{}, t0)
	s, _ = task.Step(sp, s, task.Look{}, t0.Add(10*time.Second)) // the start is being given up
	s, effects := task.Resume(sp, s, t0.Add(11*time.Second))
	if s.Phase != task.Off || len(effects) != 1 || effects[0] != (task.Destroy{Run: 1}) {
		t.Errorf("a start that was given up: phase %s, %v", s.Phase, effects)
	}
	s, effects = task.Resume(sp, s, t0.Add(12*time.Second))
	if s.Phase != task.Off || len(effects) != 1 || effects[0] != (task.Destroy{Run: 1}) {
		t.Errorf("a paused task: phase %s, %v", s.Phase, effects)
	}
	if !task.Due(sp, s, t0.Add(20*time.Second)) || task.Due(sp, s, t0.Add(19*time.Second)) {
		t.Error("it is not due when its window opens")
	}
	s.Order = model.ScheduleStatePause
	if at := task.NextLook(sp, s, t0); !at.IsZero() {
		t.Errorf("a task that an operator paused is looked at again at %s", at)
	}
	sp.Window = nil // a newer version of the job
	if s, _ = task.Step(sp, s, task.Look{}, t0.Add(13*time.Second)); s.Phase != task.Starting {
		t.Errorf("without a schedule it is %s", s.Phase)
	}
}

type far struct{ evenTens }

func (far) Next(after time.Time) time.Time { return after.Add(24 * time.Hour) }

func TestAWindowIsLookedAtEachMinuteBecauseClocksAreSet(t *testing.T) {
	sp := spec(func(s *task.Spec) { s.Window = far{} })
	if at := task.NextLook(sp, task.New(t0), t0); at.Sub(t0) != time.Minute {
		t.Errorf("the next look is after %s", at.Sub(t0))
	}
}
