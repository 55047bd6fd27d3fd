// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package task

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/core/model"
)

// Action is an event that the group's order demands of one of its tasks.
type Action struct {
	Task  string
	Event Event
}

// StopRequest is what is wanted of a whole alloc.
type StopRequest struct {
	Wanted  bool
	NoDelay bool // skip the shutdown delays
	Expired bool // its time is over; see Expiry
	// CutOff is how long its node has lost the servers, where that ends it; else 0.
	CutOff time.Duration
}

// Expiry is when the group has run for its max_run_duration, counted from the
// first start of any of its tasks. It is zero where there is no limit, and until
// a task has started.
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

// expired is what tasks are told whose group's time is over.
func expired(limit time.Duration) model.TaskEvent {
	return model.TaskEvent{
		Type: model.TaskMaxRunDuration, FailsTask: true,
		DisplayMessage: fmt.Sprintf("The allocation has run for its max_run_duration of %s", limit),
		Details:        map[string]string{"max_run_duration": limit.String(), "fails_task": "true"},
	}
}

// lostServers is what tasks are told whose node has lost its servers for too long.
func lostServers(after time.Duration) model.TaskEvent {
	return model.TaskEvent{
		Type: model.TaskKilling, FailsTask: true,
		DisplayMessage: fmt.Sprintf("The node has lost its servers for the stop_on_client_after of %s", after),
		Details:        map[string]string{"stop_on_client_after": after.String(), "fails_task": "true"},
	}
}

// Order decides from the states of a group's tasks what is next: prestart tasks,
// then the main ones, then poststart; at the end everything is killed, the leader
// first and sidecars last, and poststop tasks run. It is repeated until it
// returns nothing.
func Order(tg *model.TaskGroup, states map[string]State, stop StopRequest) []Action {
	g := group{tg: tg, states: states}
	if reason, ending := g.ending(stop); ending {
		return g.end(reason, stop)
	}
	return g.begin()
}

// Ending reports whether the group is to end: nothing of it can begin again.
func Ending(tg *model.TaskGroup, states map[string]State, stop StopRequest) bool {
	_, ending := group{tg: tg, states: states}.ending(stop)
	return ending
}

type group struct {
	tg     *model.TaskGroup
	states map[string]State
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

// ending reports whether the group is to end, and what its tasks are told.
func (g group) ending(stop StopRequest) (reason model.TaskEvent, ending bool) {
	if stop.Expired && !stop.Wanted {
		return expired(*g.tg.MaxRunDuration), true
	}
	if stop.CutOff > 0 && !stop.Wanted {
		return lostServers(stop.CutOff), true
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
	case mains > 0 && !working: // a poststart task that is to end may do so first
		return model.EventMainDead(), true
	}
	return model.TaskEvent{}, false
}

// The stages of an end. A stage is killed when those before it are dead.
const (
	leaderStage = iota
	workStage
	sidecarStage
)

// stage is when in the end of its group t is killed. A leader that does not run
// holds nobody up.
func (g group) stage(t *model.Task) int {
	switch {
	case t.Leader && g.states[t.Name].Alive():
		return leaderStage
	case Sidecar(t) && g.states[t.Name].Alive():
		return sidecarStage
	}
	return workStage
}

// end kills what lives, stage by stage, then begins the poststop tasks.
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
		// A second kill tells a task that waits for its delay to hurry.
		if !s.KillWanted || stop.NoDelay && s.Phase == Delaying {
			out = append(out, Action{t.Name, Kill{Reason: reason, NoDelay: stop.NoDelay}})
		}
	}
	return out
}

// beginPoststop begins what cleans up. Where nothing was ever started there is
// nothing to clean up.
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

// begin begins every task whose turn has come. Nothing begins while a task that
// shall run again has yet to end.
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
		if turn {
			out = append(out, Action{t.Name, Begin{}})
		}
	}
	return out
}
