// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"fmt"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// action is an event that the group's order demands of one of its tasks.
type action struct {
	task  string
	event task.Event
}

// order decides from the states of a group's tasks what is next: prestart tasks,
// then the main ones, then poststart; at the end everything is killed, the leader
// first, and poststop tasks run. It is repeated until it returns nothing.
func order(tg *model.TaskGroup, states map[string]task.State, stop stopRequest) []action {
	g := group{tg: tg, states: states}
	if reason, ending := g.ending(stop); ending {
		return g.end(reason, stop)
	}
	return g.begin()
}

// stopRequest is what servers want of an alloc.
type stopRequest struct {
	wanted  bool
	noDelay bool
}

type group struct {
	tg     *model.TaskGroup
	states map[string]task.State
}

func hook(t *model.Task) string {
	if t.Lifecycle == nil {
		return ""
	}
	return t.Lifecycle.Hook
}

func sidecar(t *model.Task) bool { return t.Lifecycle != nil && t.Lifecycle.Sidecar }

func (g group) dead(t *model.Task) bool { return g.states[t.Name].Phase == task.Dead }

func (g group) ended(t *model.Task) bool {
	return g.dead(t) && !g.states[t.Name].Report.Failed
}

func (g group) hasStarted(t *model.Task) bool { return g.states[t.Name].Report.StartedAt != nil }

// ending reports whether the group is to end, and what its tasks are told.
func (g group) ending(stop stopRequest) (reason model.TaskEvent, ending bool) {
	mains, deadMains := 0, 0
	for _, t := range g.tg.Tasks {
		if hook(t) == model.TaskLifecycleHookPoststop {
			continue
		}
		if hook(t) == "" {
			mains++
			if g.dead(t) {
				deadMains++
			}
		}
		if g.dead(t) && g.states[t.Name].Report.Failed {
			return model.TaskEvent{
				Type: model.TaskSiblingFailed, FailedSibling: t.Name,
				DisplayMessage: fmt.Sprintf("Task's sibling %q failed", t.Name),
				Details:        map[string]string{"failed_sibling": t.Name},
			}, true
		}
	}
	if stop.wanted {
		return model.TaskEvent{}, true
	}
	for _, t := range g.tg.Tasks {
		if t.Leader && g.dead(t) {
			return model.TaskEvent{Type: model.TaskLeaderDead, DisplayMessage: "Leader Task in Group dead"}, true
		}
	}
	if mains > 0 && mains == deadMains {
		return model.TaskEvent{Type: model.TaskMainDead, DisplayMessage: "Main tasks in the group died"}, true
	}
	return model.TaskEvent{}, false
}

// end kills what lives, then begins the poststop tasks.
func (g group) end(reason model.TaskEvent, stop stopRequest) []action {
	var out []action
	alive, ran := false, false
	leader := g.liveLeader()
	for _, t := range g.tg.Tasks {
		if hook(t) == model.TaskLifecycleHookPoststop {
			continue
		}
		s := g.states[t.Name]
		ran = ran || s.Run > 0
		if s.Phase == task.Dead {
			continue
		}
		alive = true
		// A second kill tells a task that waits for its delay to hurry.
		hurry := stop.noDelay && s.Phase == task.Delaying
		if (!s.KillWanted || hurry) && (leader == "" || leader == t.Name) {
			out = append(out, action{t.Name, task.Kill{Reason: reason, NoDelay: stop.noDelay}})
		}
	}
	if alive {
		return out
	}
	for _, t := range g.tg.Tasks {
		if hook(t) != model.TaskLifecycleHookPoststop || g.states[t.Name].Phase != task.Waiting {
			continue
		}
		if ran {
			out = append(out, action{t.Name, task.Begin{}})
		} else {
			out = append(out, action{t.Name, task.Kill{}})
		}
	}
	return out
}

func (g group) liveLeader() string {
	for _, t := range g.tg.Tasks {
		if t.Leader && g.states[t.Name].Alive() {
			return t.Name
		}
	}
	return ""
}

// begin begins every task whose turn has come.
func (g group) begin() []action {
	var out []action
	prestarted, mainsStarted := true, true
	for _, t := range g.tg.Tasks {
		switch hook(t) {
		case model.TaskLifecycleHookPrestart:
			prestarted = prestarted && (sidecar(t) && g.hasStarted(t) || g.ended(t))
		case "":
			mainsStarted = mainsStarted && g.hasStarted(t)
		}
	}
	for _, t := range g.tg.Tasks {
		if g.states[t.Name].Phase != task.Waiting {
			continue
		}
		turn := false
		switch hook(t) {
		case model.TaskLifecycleHookPrestart:
			turn = true
		case "":
			turn = prestarted
		case model.TaskLifecycleHookPoststart:
			turn = prestarted && mainsStarted
		}
		if turn {
			out = append(out, action{t.Name, task.Begin{}})
		}
	}
	return out
}
