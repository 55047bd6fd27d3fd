// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// officeHours is a task that runs from 9 to 17 o'clock UTC. The clock of a test begins at
// midnight.
func officeHours(name string) *model.Task {
	t := newTask(name)
	t.Schedule = &model.TaskSchedule{Cron: &model.TaskScheduleCron{Start: "0 9 * * *", End: "0 17"}}
	return t
}

func (b *bed) paused(name, want string) {
	b.t.Helper()
	if got := b.r.View().TaskStates[name].Paused; got != want {
		b.t.Errorf("%s is paused %q, want %q", name, got, want)
	}
}

// sleepTo sleeps until an hour of the test's days.
func sleepTo(hour float64) {
	day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	time.Sleep(time.Until(day.Add(time.Duration(hour * float64(time.Hour)))))
	synctest.Wait()
}

func TestATaskRunsInItsWindowOverRestartsOfTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(officeHours("shop"), newTask("always")))
		synctest.Wait()
		b.wants("always", "running")
		b.paused("shop", model.PausedBySchedule)
		sleepTo(9.01)
		b.wants("always shop", "running")
		b.restart(nil)
		synctest.Wait()
		b.wants("always shop", "running")
		sleepTo(17.01)
		b.wants("always", "running")
		b.restart(nil)
		synctest.Wait()
		b.wants("always", "running")
		b.restart(func() { time.Sleep(24 * time.Hour) }) // until the evening of the next day
		synctest.Wait()
		b.wants("always", "running")
		b.restart(func() { time.Sleep(17 * time.Hour) }) // until noon: it opened while no agent ran
		synctest.Wait()
		b.wants("always shop", "running")
		b.restart(func() { time.Sleep(8 * time.Hour) }) // it closed while no agent ran
		synctest.Wait()
		b.wants("always", "running")
		if n := b.r.View().TaskStates["shop"].Restarts; n != 0 {
			t.Errorf("%d restarts", n)
		}
	})
}

func TestAnOperatorsPauseIsKeptOverRestartsOfTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(officeHours("shop")))
		sleepTo(10)
		b.wants("shop", "running")
		if err := b.r.Direct("shop", "pause"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.restart(nil)
		sleepTo(34)
		b.wants("", "running")
		b.paused("shop", model.PausedByOperator)
		if err := b.r.Direct("", "run"); err != nil {
			t.Fatal(err)
		}
		sleepTo(43) // after 17 o'clock
		b.wants("shop", "running")
		now, err := b.r.Schedules("shop")
		if s := now["shop"]; err != nil || s.State != "run" || s.Paused != model.RunByOperator || s.Next.Hour() != 9 {
			t.Errorf("%+v, %v", s, err)
		}
		if err := b.r.Direct("shop", "scheduled"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wants("", "running")
	})
}

func TestWhatCannotBePausedByScheduleIsRefused(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		for _, name := range []string{"web", ""} {
			if err := b.r.Direct(name, "pause"); !errdefs.IsFailedPrecondition(err) {
				t.Errorf("task %q without a schedule: %v", name, err)
			}
		}
		if err := b.r.Direct("db", "pause"); !errdefs.IsInvalidArgument(err) {
			t.Errorf("an unknown task: %v", err)
		}
		if err := b.r.Direct("web", "sleep"); !errdefs.IsInvalidArgument(err) {
			t.Errorf("an unknown state: %v", err)
		}
	})
}

func TestAPauseGivesUpAStartThatHangs(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onStart = func(ctx context.Context, _ *driver.TaskConfig) error {
			<-ctx.Done()
			return ctx.Err()
		}
		b.run(newAlloc(officeHours("shop")))
		sleepTo(9.01)
		if err := b.r.Direct("shop", "pause"); err != nil {
			t.Fatal(err)
		}
		sleepTo(9.02)
		b.paused("shop", model.PausedByOperator)
		did(t, b, "start shop")
		if s := b.r.View().TaskStates["shop"]; s.State != "pending" || s.Failed {
			t.Errorf("%+v", s)
		}
	})
}

func TestADeploymentOutsideTheWindowIsNotHeldUpByAPausedTask(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(officeHours("shop"), newTask("always"))
		a.DeploymentID = "d"
		a.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, HealthCheck: "checks", MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute}
		a.Job.TaskGroups[0].Tasks[0].Services = []*model.Service{{Name: "s", Provider: "nomad", Checks: []*model.ServiceCheck{{Name: "c", Type: "tcp", Interval: time.Second, Timeout: time.Second}}}}
		b.run(a)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if h := b.r.View().DeploymentStatus; h.IsHealthy() || h.IsUnhealthy() {
			t.Error("it is judged before min_healthy_time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h := b.r.View().DeploymentStatus; !h.IsHealthy() {
			t.Errorf("%+v; %s", h, b.events("shop"))
		}
	})
}

func TestAnAllocOfWhichNothingHasStartedYetSaysThatItIsPaused(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(officeHours("shop"))
		b.run(a)
		synctest.Wait()
		if v := b.r.View(); v.ClientStatus != "pending" || v.ClientDescription != "No tasks have started: one is paused by its schedule or an operator" {
			t.Errorf("%s: %s", v.ClientStatus, v.ClientDescription)
		}
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
	})
}
