// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Action is an event for one task of a group.
type Action struct {
	Task  string
	Event Event
}

// StopRequest describes the requested end of an alloc.
type StopRequest struct {
	Wanted  bool
	NoDelay bool // skip the shutdown delays
	Expired bool // max_run_duration has passed; see Expiry
	// Unprepared is why the group can never be ready for its tasks; otherwise "".
	Unprepared string
	// CutOff is how long the node has had no servers, if that ends the alloc;
	// otherwise 0.
	CutOff time.Duration
}

// Expiry returns when the group has run for its max_run_duration, counted from the
// first start of any of its tasks. It is zero if there is no limit or no task has
// started yet.
func Expiry(tg *model.TaskGroup, states map[string]State) time.Time {
	if tg.MaxRunDuration == nil || *tg.MaxRunDuration <= 0 {
		return time.Time{}
	}
	var first time.Time
	for _, s := range states {
		if at := s.FirstStart; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return time.Time{}
	}
	return first.Add(*tg.MaxRunDuration)
}

// expired returns the kill reason for a group whose time has expired.
func expired(limit time.Duration) model.TaskEvent {
	return model.TaskEvent{
		Type: model.TaskMaxRunDuration, FailsTask: true,
		DisplayMessage: fmt.Sprintf("The allocation has run for its max_run_duration of %s", limit),
		Details:        map[string]string{"max_run_duration": limit.String(), "fails_task": "true"},
	}
}

// lostServers returns the kill reason for a group whose node has been without servers
// for too long.
func lostServers(after time.Duration) model.TaskEvent {
	return model.TaskEvent{
		Type: model.TaskKilling, FailsTask: true,
		DisplayMessage: fmt.Sprintf("The node has lost its servers for the stop_on_client_after of %s", after),
		Details:        map[string]string{"stop_on_client_after": after.String(), "fails_task": "true"},
	}
}

// Order decides from the states of a group's tasks what must happen next. It begins
// prestart tasks, then main tasks, then poststart tasks. At the end it kills all
// tasks, the leader first and sidecars last, and then begins the poststop tasks. The
// caller repeats it until it returns nothing.
func Order(tg *model.TaskGroup, states map[string]State, stop StopRequest, facts Facts) []Action {
	g := group{tg: tg, states: states, facts: facts}
	if reason, ending := g.ending(stop); ending {
		return g.end(reason, stop)
	}
	return g.begin()
}

// Ending reports whether the group is ending, so that none of its tasks may begin
// again.
func Ending(tg *model.TaskGroup, states map[string]State, stop StopRequest) bool {
	_, ending := group{tg: tg, states: states}.ending(stop)
	return ending
}

type group struct {
	tg     *model.TaskGroup
	states map[string]State
	facts  Facts
}

// Hook is the lifecycle hook of a task, "" for a main task.
func Hook(t *model.Task) string {
	if t.Lifecycle == nil {
		return ""
	}
	return t.Lifecycle.Hook
}

// Sidecar reports whether t runs beside the main tasks for as long as they do.
func Sidecar(t *model.Task) bool { return t.Lifecycle != nil && t.Lifecycle.Sidecar }

func poststop(t *model.Task) bool { return Hook(t) == model.TaskLifecycleHookPoststop }

func (g group) dead(t *model.Task) bool { return g.states[t.Name].Phase == Dead }

func (g group) failed(t *model.Task) bool { return g.dead(t) && g.states[t.Name].Report.Failed }

// ending reports whether the group is ending, and the kill reason for its tasks.
func (g group) ending(stop StopRequest) (reason model.TaskEvent, ending bool) {
	if stop.Expired && !stop.Wanted {
		return expired(*g.tg.MaxRunDuration), true
	}
	if stop.CutOff > 0 && !stop.Wanted {
		return lostServers(stop.CutOff), true
	}
	if stop.Unprepared != "" && !stop.Wanted {
		reason := model.EventSetupFailure(stop.Unprepared)
		reason.FailsTask = true
		return reason, true
	}
	leaderDead, mains, working := false, 0, false
	for _, t := range g.tg.Tasks {
		if poststop(t) {
			continue
		}
		if g.failed(t) {
			return model.EventSiblingFailed(t.Name), true
		}
		leaderDead = leaderDead || t.Leader && g.dead(t)
		working = working || !Sidecar(t) && !g.dead(t)
		if Hook(t) == "" {
			mains++
		}
	}
	switch {
	case stop.Wanted:
		return model.TaskEvent{}, true
	case leaderDead:
		return model.EventLeaderDead(), true
	case mains > 0 && !working: // a poststart task that ends by itself may still finish
		return model.EventMainDead(), true
	}
	return model.TaskEvent{}, false
}

// The stages of the end of a group. A stage is killed once all earlier stages are
// dead.
const (
	leaderStage = iota
	workStage
	sidecarStage
)

// stage returns the stage in which t is killed. A leader that does not run delays
// nothing.
func (g group) stage(t *model.Task) int {
	switch {
	case t.Leader && g.states[t.Name].Alive():
		return leaderStage
	case Sidecar(t) && g.states[t.Name].Alive():
		return sidecarStage
	}
	return workStage
}

// end kills the tasks stage by stage, and then begins the poststop tasks.
func (g group) end(reason model.TaskEvent, stop StopRequest) []Action {
	stage, ran := sidecarStage+1, false
	for _, t := range g.tg.Tasks {
		if poststop(t) {
			continue
		}
		ran = ran || g.states[t.Name].Run > 0
		if !g.dead(t) {
			stage = min(stage, g.stage(t))
		}
	}
	if stage > sidecarStage {
		return g.beginPoststop(ran)
	}
	var out []Action
	for _, t := range g.tg.Tasks {
		if poststop(t) || g.dead(t) || g.stage(t) != stage {
			continue
		}
		s := g.states[t.Name]
		// A second kill with NoDelay ends the delay of a task that is waiting.
		if !s.KillWanted || stop.NoDelay && s.Phase == Delaying {
			out = append(out, Action{t.Name, Kill{Reason: reason, NoDelay: stop.NoDelay}})
		}
	}
	return out
}

// beginPoststop begins the poststop tasks, unless no task was ever started.
func (g group) beginPoststop(ran bool) []Action {
	var out []Action
	for _, t := range g.tg.Tasks {
		switch {
		case !poststop(t) || g.states[t.Name].Phase != Waiting:
		case ran:
			out = append(out, Action{t.Name, Begin{}})
		default:
			out = append(out, Action{t.Name, Kill{}})
		}
	}
	return out
}

// begin begins every task whose turn has come. Nothing begins while a task that should
// run again has not ended yet.
func (g group) begin() []Action {
	prestarted, mainsStarted := true, true
	for _, t := range g.tg.Tasks {
		s := g.states[t.Name]
		if s.RerunWanted {
			return nil
		}
		switch Hook(t) {
		case model.TaskLifecycleHookPrestart:
			prestarted = prestarted && (Sidecar(t) && s.HasStarted() || g.dead(t))
		case "":
			mainsStarted = mainsStarted && s.HasStarted()
		}
	}
	var out []Action
	for _, t := range g.tg.Tasks {
		if g.states[t.Name].Phase != Waiting {
			continue
		}
		turn := false
		switch Hook(t) {
		case model.TaskLifecycleHookPrestart:
			turn = true
		case "":
			turn = prestarted
		case model.TaskLifecycleHookPoststart:
			turn = prestarted && mainsStarted
		}
		if ev := g.next(t); turn && ev != nil {
			out = append(out, Action{t.Name, ev})
		}
	}
	return out
}
