// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"time"

	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// settle applies the group's order, stores what has changed, reports to the servers,
// and only then carries out the effects.
func (r *Runner) settle(e *effects) {
	if r.closed || !r.begun {
		return
	}
	now := r.cfg.Now()
	r.lookAtWindows(now, e)
	for {
		actions := r.order(now)
		if len(actions) == 0 {
			break
		}
		for _, a := range actions {
			r.step(a.Task, a.Event, e)
		}
	}
	if r.dead() {
		r.stepGroup(group.Stop{}, e)
	}
	r.followChecks()
	r.noteUnregistered(e)
	r.lookAgain(now, r.judge(now, e), task.Expiry(r.group, r.states()), r.nextLook(now), r.nextDependency(now))
	ended := r.justEnded()
	r.saveStates()
	if r.seen() {
		r.cfg.Publish(r.view())
	}
	for _, te := range e.list {
		r.carryOut(te)
	}
	for _, name := range ended { // a task that never ran needs no Destroy
		r.lookAtDevices(name)
	}
	r.carryOutGroup(e.group)
	r.letGo()
	r.noteEnd()
}

// seen reports whether the drivers have confirmed the stored states of all tasks after
// a restart of the agent. Until then nothing is reported, because the machine may have
// been restarted, too.
func (r *Runner) seen() bool {
	for _, t := range r.tasks {
		if t.unseen {
			return false
		}
	}
	return true
}

// justEnded returns the dead tasks whose state is not stored yet.
func (r *Runner) justEnded() (names []string) {
	for name, t := range r.tasks {
		if t.dirty && t.state.Phase == task.Dead {
			names = append(names, name)
		}
	}
	return names
}

// letGo closes the templates and the sockets of dead tasks.
func (r *Runner) letGo() {
	for name, t := range r.tasks {
		if t.state.Phase == task.Dead {
			r.shutAPI(name)
		}
		if open := t.rendering; open != nil && t.state.Phase == task.Dead {
			t.rendering = nil
			r.work.Go(open.Close)
		}
	}
}

// order returns the events for the tasks that are next in the group's order. None begins
// before the group is ready.
func (r *Runner) order(now time.Time) []task.Action {
	states, stop := r.states(), r.wanted(now)
	if r.phase.Phase != group.Ready && !task.Ending(r.group, states, stop) {
		return nil
	}
	facts, _ := r.facts(now, states)
	return task.Order(r.group, states, stop, facts)
}

// dead reports whether all tasks are dead.
func (r *Runner) dead() bool {
	for _, t := range r.tasks {
		if t.state.Phase != task.Dead {
			return false
		}
	}
	return true
}

func (r *Runner) noteEnd() {
	if !r.ended && r.phase.Phase == group.Over {
		r.ended = true
		r.endChecks()
		close(r.over)
		r.holdCores(nil)
		r.cfg.Ended(r.id)
	}
}

func (r *Runner) states() map[string]task.State {
	out := make(map[string]task.State, len(r.tasks))
	for name, t := range r.tasks {
		out[name] = t.state
	}
	return out
}

// wanted returns the requested end of the alloc, by servers, its node or its own
// limits.
func (r *Runner) wanted(now time.Time) task.StopRequest {
	stop := r.stop
	end := task.Expiry(r.group, r.states())
	stop.Unprepared = r.phase.Failure
	stop.Expired = !end.IsZero() && !now.Before(end)
	return stop
}

// lookAgain schedules settle for the first of the times that is in the future.
func (r *Runner) lookAgain(now time.Time, times ...time.Time) {
	if r.look != nil {
		r.look.Stop()
		r.look = nil
	}
	var first time.Time
	for _, at := range times {
		if at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if !first.IsZero() && !r.ended {
		r.look = time.AfterFunc(first.Sub(now), r.reconsider)
	}
}

// judge decides the alloc's health once, if its deployment needs it, and returns when to
// check again; zero means never.
func (r *Runner) judge(now time.Time, e *effects) (again time.Time) {
	rule, ok := ruleOf(r.alloc, r.group, r.received)
	if !ok || !r.phase.Decided() || r.stop.Wanted || r.health != nil && r.health.Healthy != nil || !r.seen() {
		return time.Time{}
	}
	v := judge(rule, r.group, r.states(), r.checkHealth(rule), now)
	if !v.decided {
		return v.at
	}
	for name, why := range v.reason {
		r.step(name, task.Note{Event: model.TaskEvent{
			Type: model.TaskAllocUnhealthy, Message: why, DisplayMessage: why, Details: map[string]string{"message": why},
		}}, e)
	}
	r.health = &model.AllocDeploymentStatus{Healthy: &v.healthy, Timestamp: now.UTC(), Canary: r.alloc.DeploymentStatus.IsCanary()}
	r.saveAlloc()
	return time.Time{}
}

func (r *Runner) reconsider() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(&effects{})
}
