// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task_test

import (
	"testing"

	"github.com/drover-project/drover/core/agent/task"
)

func TestWhatTheDriverSaysOfAnotherRunOrAgainChangesNothing(t *testing.T) {
	s, sp := running(t), limits(small)
	before := s.Noted
	s, _ = steps(s, sp, task.Held{Run: 0, Paused: true}, task.Held{Run: 1}, task.Held{Run: 2, Paused: true})
	if s.Paused || s.Noted != before {
		t.Errorf("paused %t with %d new events, by answers that are old, or say what is known", s.Paused, s.Noted-before)
	}
	s, _ = steps(s, sp, task.Held{Run: 1, Paused: true}, task.Held{Run: 1, Paused: true})
	if !s.Paused || s.Noted != before+1 {
		t.Errorf("paused %t with %d new events, want one for two equal answers", s.Paused, s.Noted-before)
	}
}

func TestAStopOrAnEndOfAPausedTaskLeavesItNotPaused(t *testing.T) {
	sp := limits(small)
	for what, ev := range map[string]task.Event{"a kill": task.Kill{}, "a restart": task.Restart{Reason: "x"}, "an end": task.Exited{Run: 1, ExitCode: 1}} {
		s, _ := steps(running(t), sp, task.Held{Run: 1, Paused: true}, ev, task.Held{Run: 1, Paused: true}) // the last one is late
		if s.Paused {
			t.Errorf("after %s the task in phase %s is said to be paused", what, s.Phase)
		}
	}
	s, effects := steps(running(t), sp, task.Held{Run: 1, Paused: true}, task.Restart{Reason: "x"})
	if s.Phase != task.Stopping || effects != "task.Stop" {
		t.Errorf("a restart of a paused task: phase %s, effects %q", s.Phase, effects)
	}
}
