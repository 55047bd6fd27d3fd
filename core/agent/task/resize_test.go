// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/task"
)

var small, large = task.Limits{CPUMHz: 100, MemoryMB: 64}, task.Limits{CPUMHz: 200, MemoryMB: 128, MemoryMaxMB: 256}

func limits(l task.Limits) task.Spec { return spec(func(s *task.Spec) { s.Limits = l }) }

// running returns a task that was started with small.
func running(t *testing.T) task.State {
	t.Helper()
	return play(t, limits(small), []at{
		{0, task.Begin{}, task.Starting, "start 1", "Building Task Directory"},
		{1, task.Started{Run: 1}, task.Running, "", "Task started by client"},
		{2, task.Resize{}, task.Running, "", ""},
	})
}

// steps applies events and returns the effects of the last.
func steps(s task.State, sp task.Spec, events ...task.Event) (task.State, string) {
	var effects []task.Effect
	for _, ev := range events {
		s, effects = task.Step(sp, s, ev, t0.Add(time.Minute))
	}
	return s, effectsOf(effects)
}

func effectsOf(list []task.Effect) string {
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%T", e))
	}
	return strings.Join(out, " ")
}

func hasEvent(s task.State, text string) bool {
	var all []string
	for _, e := range s.Report.Events {
		all = append(all, e.DisplayMessage)
	}
	return slices.Contains(all, text)
}

func TestNewResourcesAreAskedForOnceAndRemembered(t *testing.T) {
	s, does := steps(running(t), limits(large), task.Resize{})
	if does != "task.Update" || !s.Updating || s.Has != small {
		t.Fatalf("%s, %+v", does, s)
	}
	if s, does = steps(s, limits(large), task.Resize{}); does != "" {
		t.Fatalf("an update in progress is asked for again: %s", does)
	}
	s, does = steps(s, limits(large), task.Updated{Run: 1, Limits: large})
	if does != "" || s.Updating || s.Has != large || !s.UpdatedAt.Equal(t0.Add(time.Minute)) || !hasEvent(s, "The running task has cpu 200 MHz and memory 128 MiB, at most 256 MiB") {
		t.Fatalf("%s, %+v", does, s)
	}
	if again, does := steps(s, limits(large), task.Updated{Run: 1, Limits: small}); does != "" || again.Has != large {
		t.Errorf("an answer that nobody waits for: %s, %+v", does, again)
	}
	if _, does := task.Resume(limits(large), s, t0); len(does) != 0 {
		t.Errorf("the next agent repeats what is done: %v", does)
	}
}

func TestResourcesThatChangeDuringAnUpdateAreAskedForAfterIt(t *testing.T) {
	for name, answer := range map[string]task.Event{
		"done": task.Updated{Run: 1, Limits: large}, "failed": task.UpdateFailed{Run: 1, Limits: large, Err: "too little"},
	} {
		s, _ := steps(running(t), limits(large), task.Resize{})
		third := limits(task.Limits{CPUMHz: 1, MemoryMB: 1})
		if s, does := steps(s, third, task.Resize{}, answer); does != "task.Update" || !s.Updating || s.Phase != task.Running {
			t.Errorf("%s: %s, %+v", name, does, s)
		}
	}
}

func TestATaskThatCannotGetItsResourcesIsRestartedWithThem(t *testing.T) {
	s, does := steps(running(t), limits(large), task.Resize{}, task.UpdateFailed{Run: 1, Limits: large, Err: "too little"})
	if does != "task.Stop" || s.Phase != task.Stopping || !hasEvent(s, "The resources of the running task could not be changed: too little") {
		t.Fatalf("%s, %+v", does, s)
	}
	s, does = steps(s, limits(large), task.Exited{Run: 1, ExitCode: 143})
	if does != "task.Destroy task.Start" || s.Phase != task.Starting || s.Has != large || s.Updating || s.WindowCount != 0 {
		t.Fatalf("%s, %+v", does, s)
	}
	if s, does = steps(s, limits(large), task.Started{Run: 2}); does != "" || s.Phase != task.Running {
		t.Errorf("%s, %+v", does, s)
	}
}

func TestTheNextAgentGoesOnWithAnUpdate(t *testing.T) {
	before, _ := steps(running(t), limits(large), task.Resize{})
	for name, s := range map[string]task.State{"in progress": before, "not begun": running(t)} {
		s, does := task.Resume(limits(large), s, t0)
		if effectsOf(does) != "task.Update" || !s.Updating {
			t.Errorf("%s: %v, %+v", name, does, s)
		}
	}
}

func TestResourcesThatChangeDuringAStartAreAskedForAfterIt(t *testing.T) {
	s, _ := steps(task.New(t0), limits(small), task.Begin{})
	s, does := steps(s, limits(large), task.Resize{})
	if does != "" || s.Updating {
		t.Fatalf("%s, %+v", does, s)
	}
	if _, does = steps(s, limits(large), task.Started{Run: 1}); does != "task.Update" {
		t.Error(does)
	}
}

func TestATaskThatEndsIsNotUpdated(t *testing.T) {
	s, _ := steps(running(t), limits(large), task.Resize{})
	s, _ = steps(s, limits(large), task.Kill{})
	for _, answer := range []task.Event{task.Updated{Run: 1, Limits: small}, task.UpdateFailed{Run: 1, Limits: large, Err: "it has ended"}, task.Resize{}} {
		if s, does := steps(s, limits(large), answer); does != "" || s.Phase != task.Stopping || s.RestartWanted {
			t.Errorf("%T: %s, %+v", answer, does, s)
		}
	}
}

func TestATaskIsMovedToOtherCoresWithoutAWordAndIsNeverRestartedForThat(t *testing.T) {
	moved := small
	moved.Cores = "0-2"
	s, does := steps(running(t), limits(moved), task.Resize{})
	if does != "task.Update" {
		t.Fatal(does)
	}
	before := len(s.Report.Events)
	for name, answer := range map[string]task.Event{
		"done": task.Updated{Run: 1, Limits: moved}, "failed": task.UpdateFailed{Run: 1, Limits: moved, Err: "no such core"},
	} {
		got, does := steps(s, limits(moved), answer)
		if does != "" || got.Updating || got.Has != moved || !got.UpdatedAt.IsZero() || len(got.Report.Events) != before || got.RestartWanted {
			t.Errorf("%s: %s, %+v", name, does, got)
		}
	}
	both := large
	both.Cores = "0-2"
	s, _ = steps(running(t), limits(both), task.Resize{})
	if _, does := steps(s, limits(both), task.UpdateFailed{Run: 1, Limits: both, Err: "too little"}); does != "task.Stop" {
		t.Errorf("what the servers have assigned is missing too: %s", does)
	}
}
