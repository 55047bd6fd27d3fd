// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"time"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
)

// facts returns what the dependencies of waiting tasks depend on, and when that may change
// although nothing happens; zero means never.
func (r *Runner) facts(now time.Time, states map[string]task.State) (f task.Facts, next time.Time) {
	f.Now = now
	for name := range task.Awaited(r.group, states) {
		at, ok := r.healthyAt(name)
		if !ok {
			continue
		}
		if now.Before(at) {
			next = earlier(next, at)
			continue
		}
		if f.Healthy == nil {
			f.Healthy = map[string]bool{}
		}
		f.Healthy[name] = true
	}
	return f, next
}

// nextDependency returns when a waiting task may begin or fail although nothing happens; zero
// means never.
func (r *Runner) nextDependency(now time.Time) time.Time {
	states := r.states()
	_, healthy := r.facts(now, states)
	return earlier(healthy, task.NextTimeout(r.group, states))
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// healthyAt returns when a task that runs is healthy, as far as is known now; false if it is
// not: it must have run for the min_healthy_time of the group, and its checks must pass.
func (r *Runner) healthyAt(name string) (time.Time, bool) {
	t := r.tasks[name]
	if t == nil || t.unseen || t.state.Phase != task.Running || t.state.Paused || t.state.Report.StartedAt == nil {
		return time.Time{}, false
	}
	for _, p := range checksOf(r.group) {
		if p.task == name && p.check.OnUpdate != model.OnUpdateIgnore && !r.checksPass(name) {
			return time.Time{}, false
		}
	}
	at, minimum := *t.state.Report.StartedAt, time.Duration(0)
	if u := r.group.Update; u != nil {
		minimum = u.MinHealthyTime
	}
	return at.Add(minimum), true
}

// checksPass reports whether all checks of a task pass that say whether it is healthy.
func (r *Runner) checksPass(name string) bool {
	if r.checked.set == nil {
		return false
	}
	for _, x := range r.checked.set.Results() {
		if x.Spec.Task == name && x.Spec.Check.OnUpdate != model.OnUpdateIgnore && (x.Spec.Run == "" || x.State.GoodSince.IsZero()) {
			return false
		}
	}
	return true
}

// heldBack returns the dependencies for which a task waits, as a step of its start. r.mu is
// held.
func (r *Runner) heldBack(name string) (StepStatus, bool) {
	states := r.states()
	if states[name].HeldSince.IsZero() {
		return StepStatus{}, false
	}
	facts, _ := r.facts(r.cfg.Now(), states)
	words, waits := task.HeldBack(r.group, states, facts)[name]
	if !waits {
		return StepStatus{}, false
	}
	only := map[string]task.State{name: states[name]}
	return StepStatus{Step: StepDependency, Since: states[name].HeldSince, Deadline: task.NextTimeout(r.group, only), Detail: words}, true
}
