// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
)

// after makes a task that depends on another.
func after(name, on, condition string, limit time.Duration) *model.Task {
	t := newTask(name)
	t.DependsOn = []*model.Dependency{{Name: on, Condition: condition, Timeout: limit}}
	return t
}

func TestADependentWaitsForMinHealthyTimeAlsoOverARestartOfTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("db"), after("web", "db", "healthy", time.Minute))
		a.Job.TaskGroups[0].Update = &model.UpdateStrategy{MinHealthyTime: 20 * time.Second, HealthyDeadline: time.Minute, HealthCheck: "task_states"}
		b.run(a)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.wants("db", "running")
		steps := b.r.Steps()
		if s := steps[1]; s.Step != "dependencies" || s.Detail != `task "db" to be healthy, for at most 1m0s` || s.Deadline.Sub(s.Since) != time.Minute {
			t.Errorf("the step of web: %+v", s)
		}
		b.restart(nil)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		b.wants("db", "running")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("db web", "running")
		if s := b.r.Steps()[1]; s.Step != "" {
			t.Errorf("the step of web once it runs: %+v", s)
		}
	})
}

func TestTheTimeLimitOfADependencyGoesOnWhileNoAgentRuns(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		db := newTask("db")
		db.Services = []*model.Service{{Name: "db", Provider: "nomad", PortLabel: "1", Checks: []*model.ServiceCheck{{Name: "c", Type: "tcp", Interval: time.Second, Timeout: time.Second}}}}
		b.run(newAlloc(db, after("web", "db", "healthy", time.Minute)))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.wants("db", "running") // the check of db cannot pass: it has no address
		b.restart(func() { time.Sleep(time.Minute) })
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", `The task has waited 1m0s for task "db" to be healthy`)
		b.hasEvent("db", "web")
	})
}

func TestAStopEndsATaskThatWaitsForADependency(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("db"), after("web", "db", "healthy", 0))
		a.Job.TaskGroups[0].Update = &model.UpdateStrategy{MinHealthyTime: time.Hour, HealthyDeadline: 2 * time.Hour, HealthCheck: "task_states"}
		b.run(a)
		synctest.Wait()
		b.wants("db", "running")
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
		did(t, b, "start db, stop db")
	})
}
