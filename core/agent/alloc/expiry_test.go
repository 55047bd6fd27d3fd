// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
)

// limited is an alloc that may run for so long.
func limited(limit time.Duration, tasks ...*model.Task) *model.Allocation {
	a := newAlloc(tasks...)
	a.Job.Type, a.Job.TaskGroups[0].MaxRunDuration = model.JobTypeBatch, &limit
	return a
}

func restarting(name string, delay time.Duration) *model.Task {
	t := newTask(name)
	t.RestartPolicy = &model.RestartPolicy{Attempts: 100, Interval: 24 * time.Hour, Delay: delay, Mode: "fail"}
	return t
}

const overTime = "has run for its max_run_duration of 1m0s"

func TestAnAllocEndsAndFailsWhenItsTimeIsOver(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(limited(time.Minute, newTask("main"), newTask("init:prestart"), newTask("proxy:prestart:sidecar"), newTask("bye:poststop")))
		time.Sleep(20 * time.Second) // counts, too
		b.driver.end(t, "init", 0)
		time.Sleep(39 * time.Second)
		synctest.Wait()
		b.wants("main proxy", "running")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("bye", "running")
		b.driver.end(t, "bye", 0)
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("main", overTime)
		b.hasEvent("proxy", overTime)
		if s := b.r.View().TaskStates; s["init"].Failed || s["bye"].Failed {
			t.Error("a task that had ended well has failed")
		}
	})
}

func TestAnAllocThatEndsInItsTimeIsComplete(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(limited(time.Minute, newTask("main")))
		time.Sleep(59 * time.Second)
		b.driver.end(t, "main", 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wants("", "complete")
		if got := b.events("main"); strings.Contains(got, overTime) {
			t.Error(got)
		}
	})
}

func TestATimeThatIsOverWhileNoAgentRunsEndsTheAllocAfterwards(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(limited(time.Minute, newTask("main")))
		time.Sleep(50 * time.Second)
		b.restart(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		b.wants("main", "running")
		b.restart(func() { time.Sleep(time.Hour) })
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("main", overTime)
	})
}

func TestRestartsOfATaskDoNotMakeItsTimeLonger(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(limited(time.Minute, restarting("main", 25*time.Second)))
		for range 2 {
			synctest.Wait()
			b.driver.end(t, "main", 1)
			time.Sleep(26 * time.Second)
		}
		synctest.Wait()
		b.driver.end(t, "main", 1)
		time.Sleep(9 * time.Second) // it waits for its next start
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("main", overTime)
	})
}

func TestTheTimeOfARunningAllocCanBeChanged(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(limited(time.Minute, newTask("main")))
		time.Sleep(30 * time.Second)
		b.r.Update(limited(2*time.Minute, newTask("main")))
		time.Sleep(60 * time.Second)
		synctest.Wait()
		b.wants("main", "running")
		b.r.Update(limited(time.Minute, newTask("main")))
		synctest.Wait()
		b.wants("", "failed")
	})
}

func TestAStopBeforeTheTimeIsOverIsNoFailure(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := limited(time.Minute, newTask("main"))
		a.Job.TaskGroups[0].Tasks[0].ShutdownDelay = 30 * time.Second
		b.run(a)
		time.Sleep(50 * time.Second)
		b.r.Update(stopped(a))
		time.Sleep(40 * time.Second)
		synctest.Wait()
		b.wants("", "complete")
	})
}
