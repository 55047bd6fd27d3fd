// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at is one line of a script: an event at a second, and what follows from it.
type at struct {
	second float64
	event  task.Event
	phase  task.Phase
	does   string // effects
	notes  string // new events, by their display messages
}

func spec(change func(*task.Spec)) task.Spec {
	s := task.Spec{KillTimeout: 5 * time.Second, Restart: model.RestartPolicy{
		Attempts: 1, Interval: 30 * time.Second, Delay: 4 * time.Second, Mode: "fail"}}
	if change != nil {
		change(&s)
	}
	return s
}

func play(t *testing.T, sp task.Spec, script []at) task.State {
	t.Helper()
	s := task.New(t0)
	for i, line := range script {
		now := t0.Add(time.Duration(line.second * float64(time.Second)))
		before := fmt.Sprintf("%+v", s)
		old := s
		known := map[*model.TaskEvent]bool{}
		for _, e := range s.Report.Events {
			known[e] = true
		}
		var effects []task.Effect
		s, effects = task.Step(sp, s, line.event, now)
		if fmt.Sprintf("%+v", old) != before {
			t.Fatalf("line %d: the old state was changed", i)
		}
		var does, notes []string
		for _, e := range effects {
			does = append(does, describe(e))
		}
		for _, e := range s.Report.Events {
			if !known[e] {
				notes = append(notes, e.DisplayMessage)
			}
		}
		if s.Phase != line.phase || strings.Join(does, "; ") != line.does || strings.Join(notes, "; ") != line.notes {
			t.Fatalf("line %d (%T): %s | %s | %s\nwant %s | %s | %s", i, line.event, s.Phase, strings.Join(does, "; "), strings.Join(notes, "; "), line.phase, line.does, line.notes)
		}
	}
	return s
}

func describe(e task.Effect) string {
	switch e := e.(type) {
	case task.Start:
		return fmt.Sprintf("start %d", e.Run)
	case task.Stop:
		return fmt.Sprintf("stop %d %s%s", e.Run, e.Signal, e.Timeout)
	case task.Destroy:
		return fmt.Sprintf("destroy %d", e.Run)
	case task.GiveUp:
		return fmt.Sprintf("give up %d", e.Run)
	case task.WakeUp:
		return "wake at " + e.At.Sub(t0).String()
	}
	return "?"
}

const building = "Building Task Directory"
const started = "Task started by client"

func TestAFailingTaskIsRestartedWithinItsPolicyAndThenFails(t *testing.T) {
	s := play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{1, task.Started{Run: 1}, task.Running, "", started},
		{2, task.Exited{Run: 1, ExitCode: 1, Jitter: 0.5}, task.Backoff, "destroy 1; wake at 6.5s", "Exit Code: 1; Task restarting in 4.5s"},
		{3, task.Wake{}, task.Backoff, "wake at 6.5s", ""},
		{6.5, task.Wake{}, task.Starting, "start 2", ""},
		{7, task.Exited{Run: 1}, task.Starting, "", ""}, // of an earlier run
		{7, task.Started{Run: 2}, task.Running, "", started},
		{8, task.Exited{Run: 2, ExitCode: 137, Signal: 9}, task.Dead, "destroy 2", `Exit Code: 137, Signal: 9; Exceeded allowed attempts 1 in interval 30s and mode is "fail"`},
		{9, task.Restart{}, task.Dead, "", ""},
	})
	if !s.Report.Failed || s.Report.State != "dead" || s.Report.Restarts != 1 || s.Report.FinishedAt == nil || !s.Report.StartedAt.Equal(t0.Add(7*time.Second)) {
		t.Errorf("%+v", s.Report)
	}
}

func TestATaskThatRanOutOfMemorySaysSo(t *testing.T) {
	s := play(t, spec(func(s *task.Spec) { s.EndsWell = true }), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{1, task.Started{Run: 1}, task.Running, "", started},
		{2, task.Exited{Run: 1, ExitCode: 137, Signal: 9, OOMKilled: true}, task.Backoff, "destroy 1; wake at 6s", `Exit Code: 137, Signal: 9, Exit Message: "OOM Killed"; Task restarting in 4s`},
	})
	if s.Starts != 1 || s.OOMKills != 1 {
		t.Errorf("%d starts and %d kills for memory are counted, want one of each", s.Starts, s.OOMKills)
	}
	for _, e := range s.Report.Events {
		if e.Type == "Terminated" && (e.Details["oom_killed"] != "true" || e.Message != "OOM Killed") {
			t.Errorf("%+v", e)
		}
	}
}

func TestAttemptsCountAnewInANewInterval(t *testing.T) {
	s := play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, task.Exited{Run: 1}, task.Backoff, "destroy 1; wake at 5s", "Exit Code: 0; Task restarting in 4s"},
		{5, task.Wake{}, task.Starting, "start 2", ""},
		{5, task.Started{Run: 2}, task.Running, "", started},
		{32, task.Exited{Run: 2}, task.Backoff, "destroy 2; wake at 36s", "Exit Code: 0; Task restarting in 4s"},
	})
	if s.Starts != 2 || s.OOMKills != 0 || s.Report.Restarts != 2 {
		t.Errorf("%d starts, %d kills for memory and %d restarts are counted", s.Starts, s.OOMKills, s.Report.Restarts)
	}
}

func TestInDelayModeATaskWaitsForTheNextInterval(t *testing.T) {
	sp := spec(func(s *task.Spec) { s.Restart.Mode, s.Restart.Attempts = "delay", 0 })
	play(t, sp, []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, task.Exited{Run: 1, ExitCode: 2}, task.Backoff, "destroy 1; wake at 31s", "Exit Code: 2; Exceeded allowed attempts, applying a delay - Task restarting in 30s"},
	})
}

func TestABatchTaskThatEndsWellIsDone(t *testing.T) {
	s := play(t, spec(func(s *task.Spec) { s.EndsWell = true }), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, task.Exited{Run: 1}, task.Dead, "destroy 1", "Exit Code: 0"},
		{2, task.Kill{}, task.Dead, "", ""},
	})
	if s.Report.Failed {
		t.Error("failed")
	}
}

func TestAStartThatCannotSucceedIsNotTriedAgain(t *testing.T) {
	s := play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{1, task.StartFailed{Run: 1, Err: "no such command"}, task.Dead, "", "no such command; Error was unrecoverable"},
	})
	if !s.Report.Failed || s.Report.StartedAt != nil {
		t.Errorf("%+v", s.Report)
	}
	play(t, spec(func(s *task.Spec) { s.Restart.Attempts = 0 }), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{1, task.StartFailed{Run: 1, Err: "busy", Retry: true}, task.Dead, "", "busy; Policy allows no restarts"},
	})
}

func TestAKillWaitsForTheShutdownDelayUnlessToldNotTo(t *testing.T) {
	sp := spec(func(s *task.Spec) { s.ShutdownDelay, s.KillSignal = 3*time.Second, "SIGINT " })
	killing := "Sent interrupt. Waiting 5s before force killing"
	s := play(t, sp, []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, task.Kill{}, task.Delaying, "wake at 4s", "Waiting for shutdown_delay of 3s before killing the task."},
		{2, task.Wake{}, task.Delaying, "wake at 4s", ""},
		{4, task.Wake{}, task.Stopping, "stop 1 SIGINT 5s", killing},
		{5, task.Exited{Run: 1, ExitCode: 130, Signal: 2}, task.Dead, "destroy 1", "Exit Code: 130, Signal: 2; Task successfully killed"},
	})
	if s.Report.Failed {
		t.Error("a killed task has not failed")
	}
	play(t, sp, []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, task.Kill{}, task.Delaying, "wake at 4s", "Waiting for shutdown_delay of 3s before killing the task."},
		{2, task.Kill{NoDelay: true}, task.Stopping, "stop 1 SIGINT 5s", "Skipping shutdown_delay before killing the task.; " + killing},
	})
}

func TestAKillDuringAStartOrAPauseEndsTheTask(t *testing.T) {
	play(t, spec(nil), []at{
		{0, task.Kill{Reason: model.TaskEvent{Type: "x", DisplayMessage: "why"}}, task.Dead, "", "why; Task successfully killed"},
		{0, task.Begin{}, task.Dead, "", ""},
	})
	play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{1, task.Kill{}, task.Starting, "", ""},
		{2, task.Started{Run: 1}, task.Stopping, "stop 1 5s", started + "; Sent interrupt. Waiting 5s before force killing"},
	})
	play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{1, task.StartFailed{Run: 1, Err: "busy", Retry: true}, task.Backoff, "wake at 5s", "busy; Task restarting in 4s"},
		{2, task.Kill{}, task.Dead, "", "Task successfully killed"},
		{5, task.Wake{}, task.Dead, "", ""},
	})
}

func TestAUsersRestartDoesNotCountAgainstThePolicy(t *testing.T) {
	user := task.Restart{Reason: "User requested task to restart"}
	s := play(t, spec(func(s *task.Spec) { s.Restart.Attempts = 0 }), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, user, task.Stopping, "stop 1 5s", "User requested task to restart"},
		{2, task.Exited{Run: 1, ExitCode: 130, Signal: 2}, task.Starting, "destroy 1; start 2", "Exit Code: 130, Signal: 2; Task restarting in 0s"},
		{2, task.Started{Run: 2}, task.Running, "", started},
		{3, task.Exited{Run: 2, ExitCode: 1}, task.Dead, "destroy 2", "Exit Code: 1; Policy allows no restarts"},
		{4, task.Restart{Reason: "again", Revive: true}, task.Starting, "start 3", "again"},
	})
	if s.Report.Failed || s.Report.Restarts != 2 || s.Report.State != "pending" {
		t.Errorf("%+v", s.Report)
	}
}

func TestARestartDuringAStartComesAfterIt(t *testing.T) {
	play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{1, task.Restart{Reason: "Template with change_mode restart re-rendered"}, task.Starting, "", "Template with change_mode restart re-rendered"},
		{2, task.Started{Run: 1}, task.Stopping, "stop 1 5s", started},
		{3, task.Exited{Run: 1, Signal: 2}, task.Starting, "destroy 1; start 2", "Exit Code: 0, Signal: 2; Task restarting in 0s"},
		{4, task.Started{Run: 2}, task.Running, "", started},
	})
}

func TestATaskThatRunsAgainWaitsForItsTurn(t *testing.T) {
	again := task.Rerun{Reason: "User requested all tasks to restart"}
	s := play(t, spec(func(s *task.Spec) { s.Restart.Attempts = 0 }), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, again, task.Stopping, "stop 1 5s", again.Reason},
		{2, task.Exited{Run: 1, ExitCode: 1}, task.Waiting, "destroy 1", "Exit Code: 1; Task restarting in 0s"},
	})
	if s.Report.Failed || s.Report.Restarts != 1 || s.HasStarted() || s.Report.StartedAt == nil || s.Report.State != "pending" {
		t.Errorf("%+v", s)
	}
	s = play(t, spec(func(s *task.Spec) { s.EndsWell = true }), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, again, task.Starting, "", again.Reason},
		{0, task.Started{Run: 1}, task.Stopping, "stop 1 5s", started},
		{2, task.Exited{Run: 1}, task.Waiting, "destroy 1", "Exit Code: 0; Task restarting in 0s"},
	})
	if s.Phase != task.Waiting {
		t.Error(s.Phase)
	}
	play(t, spec(func(s *task.Spec) { s.EndsWell = true }), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, task.Exited{Run: 1}, task.Dead, "destroy 1", "Exit Code: 0"},
		{2, again, task.Waiting, "", again.Reason + "; Task restarting in 0s"},
		{2, task.Begin{}, task.Starting, "start 2", building},
		{3, again, task.Starting, "", again.Reason},
		{4, task.StartFailed{Run: 2, Err: "busy"}, task.Waiting, "", "Task restarting in 0s"},
		{5, again, task.Waiting, "", ""},
	})
	// A kill wins.
	play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, again, task.Stopping, "stop 1 5s", again.Reason},
		{2, task.Kill{}, task.Stopping, "", ""},
		{3, again, task.Stopping, "", ""},
		{4, task.Exited{Run: 1}, task.Dead, "destroy 1", "Exit Code: 0; Task successfully killed"},
	})
}

func TestAKillThatFailsTheTaskLeavesItFailed(t *testing.T) {
	why := task.Kill{Reason: model.TaskEvent{Type: model.TaskHookFailed, DisplayMessage: "the script failed", FailsTask: true}}
	s := play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.Started{Run: 1}, task.Running, "", started},
		{1, why, task.Stopping, "stop 1 5s", "the script failed; Sent interrupt. Waiting 5s before force killing"},
		{2, task.Exited{Run: 1, Signal: 2}, task.Dead, "destroy 1", "Exit Code: 0, Signal: 2; Task successfully killed"},
	})
	if !s.Report.Failed {
		t.Error("the task has not failed")
	}
}

func TestAFailedStartSaysInWhatItFailed(t *testing.T) {
	for cause, want := range map[task.Cause]string{task.InDriver: "Driver Failure", task.InSetup: "Setup Failure", task.InArtifact: "Failed Artifact Download", task.InValidation: "Failed Validation", task.InHook: "Task hook failed"} {
		s, _ := task.Step(spec(nil), task.New(t0), task.Begin{}, t0)
		s, _ = task.Step(spec(nil), s, task.StartFailed{Run: 1, Err: "why", Cause: cause}, t0)
		if e := s.Report.Events[2]; e.Type != want || e.DisplayMessage != "why" {
			t.Errorf("%d: %+v", cause, e)
		}
	}
}

func TestOnlyTheNewestTenEventsAreKept(t *testing.T) {
	s := task.New(t0)
	for i := range 20 {
		s, _ = task.Step(spec(nil), s, task.Note{Event: model.TaskEvent{DisplayMessage: fmt.Sprint(i)}}, t0)
	}
	if n := len(s.Report.Events); n != 10 || s.Report.Events[9].DisplayMessage != "19" || s.Report.Events[0].DisplayMessage != "10" {
		t.Errorf("%d events", n)
	}
}

func TestAfterAnAgentRestartAnUncertainStartIsAskedForUnderItsOwnRun(t *testing.T) {
	s, _ := task.Step(spec(nil), task.New(t0), task.Begin{}, t0)
	s, effects := task.Resume(spec(nil), s, t0)
	if s.Phase != task.Starting || len(effects) != 1 || effects[0] != (task.Start{Run: 1, Again: true}) {
		t.Errorf("%s %v", s.Phase, effects)
	}
	s, _ = task.Step(spec(nil), s, task.Started{Run: 1}, t0)
	s, _ = task.Step(spec(nil), s, task.Kill{}, t0)
	if _, effects = task.Resume(spec(nil), s, t0); len(effects) != 1 || describe(effects[0]) != "stop 1 5s" {
		t.Errorf("%v", effects)
	}
}

func TestAfterAnAgentRestartWhatAnEndedRunHeldIsFreed(t *testing.T) {
	s, _ := task.Step(spec(nil), task.New(t0), task.Begin{}, t0)
	if _, effects := task.Resume(spec(nil), task.New(t0), t0); len(effects) != 0 {
		t.Errorf("a task that never ran: %v", effects)
	}
	s, _ = task.Step(spec(nil), s, task.Started{Run: 1}, t0)
	s, _ = task.Step(spec(nil), s, task.Exited{Run: 1, ExitCode: 1}, t0)
	if _, effects := task.Resume(spec(nil), s, t0); len(effects) != 2 || describe(effects[0]) != "wake at 4s" || describe(effects[1]) != "destroy 1" {
		t.Errorf("%s: %v", s.Phase, effects)
	}
	s, _ = task.Step(spec(nil), s, task.Kill{}, t0)
	if _, effects := task.Resume(spec(nil), s, t0); len(effects) != 1 || describe(effects[0]) != "destroy 1" {
		t.Errorf("%s: %v", s.Phase, effects)
	}
}

func TestAFailedStartMayAskForALaterTry(t *testing.T) {
	failed := func(run uint64, after time.Duration) task.StartFailed {
		return task.StartFailed{Run: run, Err: "busy", Retry: true, RetryAfter: after}
	}
	const asked = "busy; The failed start asked for a later try - Task restarting in "
	for after, want := range map[time.Duration]string{
		-time.Hour:       "busy; Task restarting in 4s",
		0:                "busy; Task restarting in 4s",
		3 * time.Second:  "busy; Task restarting in 4s", // never shorter than the policy's delay
		90 * time.Second: asked + "1m30s",
		23 * time.Hour:   asked + "10m0s",
	} {
		s, _ := task.Step(spec(nil), task.New(t0), task.Begin{}, t0)
		s, effects := task.Step(spec(nil), s, failed(1, after), t0)
		var notes []string
		for _, e := range s.Report.Events[2:] {
			notes = append(notes, e.DisplayMessage)
		}
		if got := strings.Join(notes, "; "); got != want || s.Phase != task.Backoff || effects[0] != (task.WakeUp{At: s.WakeAt}) {
			t.Errorf("%s: %s %s", after, s.Phase, got)
		}
		// A restart of the agent in the middle keeps the time.
		if _, effects := task.Resume(spec(nil), s, t0.Add(time.Second)); effects[0] != (task.WakeUp{At: s.WakeAt}) {
			t.Errorf("%s: after a restart %v", after, effects)
		}
	}
	// It does not renew the attempts: the interval of 30s passes only without the hint.
	play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, failed(1, time.Minute), task.Backoff, "wake at 1m0s", asked + "1m0s"},
		{60, task.Wake{}, task.Starting, "start 2", ""},
		{61, failed(2, time.Minute), task.Dead, "", `busy; Exceeded allowed attempts 1 in interval 30s and mode is "fail"`},
	})
	// It does not make a permanent error retryable.
	play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, task.StartFailed{Run: 1, Err: "never", RetryAfter: time.Minute}, task.Dead, "", "never; Error was unrecoverable"},
	})
	// A user does not have to wait for it.
	play(t, spec(nil), []at{
		{0, task.Begin{}, task.Starting, "start 1", building},
		{0, failed(1, time.Minute), task.Backoff, "wake at 1m0s", asked + "1m0s"},
		{1, task.Restart{Reason: "now"}, task.Starting, "start 2", "now"},
	})
}

func TestAFailedStartSaysWhatItsErrorExplains(t *testing.T) {
	s, _ := task.Step(spec(nil), task.New(t0), task.Begin{}, t0)
	s, _ = task.Step(spec(nil), s, task.StartFailed{
		Run: 1, Err: "no image", Reason: "image_not_found", Details: map[string]string{"image": "web:9", "driver_error": "x"}, RetryAfter: time.Minute, Retry: true,
	}, t0)
	want := map[string]string{"driver_error": "no image", "reason": "image_not_found", "retry_after": "1m0s", "detail.image": "web:9", "detail.driver_error": "x"}
	e := s.Report.Events[2]
	if !maps.Equal(e.Details, want) {
		t.Errorf("%v", e.Details)
	}
	if got := e.Explanation(); got != `reason image_not_found, driver_error "x", image "web:9", next try not within 1m0s` {
		t.Error(got)
	}
	if got := s.Report.Events[0].Explanation(); got != "" {
		t.Error(got)
	}
}

func TestARunThatItsChecksCondemnIsRestartedAsOneThatFailed(t *testing.T) {
	for name, c := range map[string]struct {
		spec  task.Spec
		after task.Event // before the end; may be nil
		want  task.Phase
	}{
		"within the policy":   {task.Spec{Restart: model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: time.Minute, Mode: "fail"}}, nil, task.Backoff},
		"a batch task":        {task.Spec{EndsWell: true, Restart: model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: time.Minute, Mode: "fail"}}, nil, task.Backoff},
		"beyond the policy":   {task.Spec{Restart: model.RestartPolicy{Mode: "fail"}}, nil, task.Dead},
		"killed meanwhile":    {task.Spec{Restart: model.RestartPolicy{Attempts: 1, Interval: time.Hour, Mode: "fail"}}, task.Kill{}, task.Dead},
		"the message repeats": {task.Spec{Restart: model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: time.Minute, Mode: "fail"}}, task.Unhealthy{Run: 1}, task.Backoff},
	} {
		now := time.Unix(1000, 0)
		s := task.New(now)
		events := []task.Event{task.Begin{}, task.Unhealthy{Run: 1, Reason: "too early"}, task.Started{Run: 1}, task.Unhealthy{Run: 7, Reason: "of another run"}, task.Unhealthy{Run: 1, Reason: `healthcheck: check "a" unhealthy`}}
		if c.after != nil {
			events = append(events, c.after)
		}
		for _, ev := range append(events, task.Exited{Run: 1}) {
			s, _ = task.Step(c.spec, s, ev, now)
		}
		said := 0
		for _, e := range s.Report.Events {
			if e.Type == model.TaskRestartSignal {
				said++
			}
		}
		if s.Phase != c.want || said != 1 {
			t.Errorf("%s: %s, with %d restart signals", name, s.Phase, said)
		}
	}
}
