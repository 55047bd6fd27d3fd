// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Conditions of a dependency.
const (
	DependencyStarted  = "started"  // it has started
	DependencyHealthy  = "healthy"  // it runs and its checks pass, or it has ended well
	DependencyComplete = "complete" // it has ended well
)

// Dependency holds back the first start of a task until another task of its group is as
// Condition says, of a group until another group of its job is, and of a job until another
// job of its namespace is. It fails after Timeout; 0 means that it waits for any time.
type Dependency struct {
	Name      string
	Condition string
	Timeout   time.Duration
}

// String says what a task waits for.
func (d *Dependency) String() string { return d.On("task") }

// On says what is waited for: what is a task, a group or a job.
func (d *Dependency) On(what string) string {
	return fmt.Sprintf("%s %q to be %s", what, d.Name, d.Condition)
}

// checkForm checks what is the same for tasks, groups and jobs.
func (d *Dependency) checkForm(p *ValidationError, what string) {
	switch d.Condition {
	case DependencyStarted, DependencyHealthy, DependencyComplete:
	default:
		p.addf("condition %q of %s %q is unknown; use started, healthy or complete", d.Condition, what, d.Name)
	}
	if d.Timeout < 0 {
		p.addf("the timeout of %s %q must not be negative", what, d.Name)
	}
}

// validateDependencies checks that each task of the group can start some time.
func (tg *TaskGroup) validateDependencies(p *ValidationError, j *Job) {
	for _, t := range tg.Tasks {
		var part ValidationError
		tg.validateDependenciesOf(&part, j, t)
		p.under("depends_on of task "+t.Name, part)
	}
	if cycle := tg.dependencyCycle(); cycle != nil {
		p.addf("depends_on makes a cycle, so that none of its tasks can start: %s", strings.Join(cycle, " -> "))
	}
}

func (tg *TaskGroup) validateDependenciesOf(p *ValidationError, j *Job, t *Task) {
	seen := map[string]bool{}
	for _, d := range t.DependsOn {
		on := tg.LookupTask(d.Name)
		switch {
		case d.Name == t.Name: // a cycle, which is refused as one
		case on == nil:
			p.addf("the group has no task %q", d.Name)
		case seen[d.Name]:
			p.addf("task %q is named twice", d.Name)
		default:
			tg.validateDependency(p, j, t, on, d)
		}
		seen[d.Name] = true
	}
}

// validateDependency checks one dependency of t on another task.
func (tg *TaskGroup) validateDependency(p *ValidationError, j *Job, t, on *Task, d *Dependency) {
	d.checkForm(p, "task")
	switch mine, others := stageOf(t), stageOf(on); {
	case mine == stagePoststop:
		p.addf("a poststop task runs when the group ends, and cannot wait for task %q", d.Name)
	case others > mine:
		p.addf("task %q begins only after this one, because of its lifecycle", d.Name)
	}
	if d.Condition != DependencyComplete {
		return
	}
	batch := j.Completes()
	switch {
	case on.Leader:
		p.addf("task %q is the leader: when it is complete, the group ends", d.Name)
	case on.Lifecycle == nil && !batch, on.Lifecycle != nil && on.Lifecycle.Sidecar:
		p.addf("task %q never completes: it is restarted when it ends", d.Name)
	}
}

// The stages in which tasks of a group begin.
const (
	stagePrestart = iota
	stageMain
	stagePoststart
	stagePoststop
)

func stageOf(t *Task) int {
	switch {
	case t.Lifecycle == nil:
		return stageMain
	case t.Lifecycle.Hook == TaskLifecycleHookPrestart:
		return stagePrestart
	case t.Lifecycle.Hook == TaskLifecycleHookPoststop:
		return stagePoststop
	}
	return stagePoststart
}

// dependencyCycle returns the tasks of a cycle, the first one also at its end; nil if there
// is none.
func (tg *TaskGroup) dependencyCycle() []string {
	on := make(map[string][]*Dependency, len(tg.Tasks))
	names := make([]string, len(tg.Tasks))
	for i, t := range tg.Tasks {
		names[i], on[t.Name] = t.Name, t.DependsOn
	}
	return cycleOf(names, func(name string) []*Dependency { return on[name] })
}

// cycleOf returns the names of a cycle that can be reached from others, the first one also at
// its end; nil if there is none.
func cycleOf(from []string, on func(name string) []*Dependency) []string {
	const (
		entered = iota + 1
		left
	)
	state := map[string]int{}
	var path []string
	var visit func(name string) []string
	visit = func(name string) []string {
		state[name] = entered
		path = append(path, name)
		for _, d := range on(name) {
			if state[d.Name] == entered {
				return append(slices.Clone(path[slices.Index(path, d.Name):]), d.Name)
			}
			if state[d.Name] == left {
				continue
			}
			if cycle := visit(d.Name); cycle != nil {
				return cycle
			}
		}
		path = path[:len(path)-1]
		state[name] = left
		return nil
	}
	for _, name := range from {
		if state[name] == 0 {
			if cycle := visit(name); cycle != nil {
				return cycle
			}
		}
	}
	return nil
}

// BeyondLevel1 reports whether servers of capability level 1 would ignore a part of the job that
// holds it, its groups or tasks back.
func (j *Job) BeyondLevel1() bool {
	if j == nil {
		return false
	}
	if j.HasHolds() {
		return true
	}
	for _, tg := range j.TaskGroups {
		if slices.ContainsFunc(tg.Tasks, func(t *Task) bool { return len(t.DependsOn) > 0 }) {
			return true
		}
	}
	return false
}
