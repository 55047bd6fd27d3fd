// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// sized is an alloc of one task in a deployment, with this memory.
func sized(memoryMB int64) *model.Allocation {
	a := newAlloc(newTask("web"))
	a.Job.TaskGroups[0].Update = &model.UpdateStrategy{HealthCheck: "task_states", MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute}
	a.DeploymentID = "d1"
	return resized(a, memoryMB)
}

// resized is the alloc as servers change it in place.
func resized(a *model.Allocation, memoryMB int64) *model.Allocation {
	c := a.Copy()
	c.AllocatedResources = &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"web": {Memory: model.AllocatedMemoryResources{MemoryMB: memoryMB}}}}
	return c
}

func healthy(b *bed) *bool {
	if s := b.r.View().DeploymentStatus; s != nil {
		return s.Healthy
	}
	return nil
}

func did(t *testing.T, b *bed, want string) {
	t.Helper()
	if got := b.driver.did(); got != want {
		t.Fatalf("the driver did %q, want %q", got, want)
	}
}

func TestARunningTaskGetsItsNewResourcesBeforeItIsReportedAsHealthy(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		release := make(chan struct{})
		b.driver.onUpdate = func(string, driver.Resources) error { <-release; return nil }
		a := sized(64)
		b.run(a)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if h := healthy(b); h == nil || !*h {
			t.Fatal("not healthy before the change")
		}
		next := resized(a, 128)
		next.DeploymentID = "d2"
		b.r.Update(next)
		b.r.Update(next) // a message that is repeated
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if h := healthy(b); h != nil {
			t.Fatalf("healthy is %v while the driver is asked", *h)
		}
		close(release)
		synctest.Wait()
		b.hasEvent("web", "memory 128 MiB")
		if h := healthy(b); h != nil {
			t.Fatalf("healthy is %v before min_healthy_time", *h)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if h := healthy(b); h == nil || !*h {
			t.Error("not healthy after the change")
		}
		did(t, b, "start web, update to 128 MiB web")
		b.restart(nil)
		synctest.Wait()
		did(t, b, "start web, update to 128 MiB web")
	})
}

func TestAnAgentThatWasKilledInAnUpdateRepeatsIt(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := sized(64)
		b.driver.onUpdate = func(string, driver.Resources) error { return errdefs.Unavailablef("the plugin is away") }
		b.run(a)
		synctest.Wait()
		b.r.Update(resized(a, 128))
		synctest.Wait()
		b.restart(func() {
			b.driver.with(func() { b.driver.onUpdate = func(string, driver.Resources) error { return nil } })
		})
		synctest.Wait()
		did(t, b, "start web, update to 128 MiB web, update to 128 MiB web")
		b.hasEvent("web", "memory 128 MiB")
		b.wants("web", "running")
	})
}

func TestAPluginThatIsAwayIsAskedAgainForTheNewestResources(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := sized(64)
		b.driver.onUpdate = func(_ string, r driver.Resources) error {
			if r.MemoryMB == 128 {
				return errdefs.Unavailablef("the plugin is away")
			}
			return nil
		}
		b.run(a)
		synctest.Wait()
		b.r.Update(resized(a, 128))
		synctest.Wait()
		b.r.Update(resized(a, 96))
		time.Sleep(time.Minute)
		synctest.Wait()
		did(t, b, "start web, update to 128 MiB web, update to 96 MiB web")
		b.wants("web", "running")
	})
}

func TestATaskThatCannotGetItsResourcesIsRestarted(t *testing.T) {
	for name, answer := range map[string]func(string, driver.Resources) error{
		"a plugin that was downgraded": nil,
		"less memory than it uses":     func(string, driver.Resources) error { return errdefs.FailedPreconditionf("it uses more") },
	} {
		with(t, func(t *testing.T, b *bed) {
			a := sized(64)
			b.driver.onUpdate = answer
			b.run(a)
			synctest.Wait()
			b.r.Update(resized(a, 32))
			synctest.Wait()
			if got := b.driver.did(); got != "start web, update to 32 MiB web, stop web, start web" {
				t.Fatalf("%s: %s", name, got)
			}
			b.hasEvent("web", "The resources of the running task could not be changed: ")
			b.hasEvent("web", "Restarted to get its new resources")
			b.wants("web", "running")
			if last := b.driver.configs[1].Resources.MemoryMB; last != 32 {
				t.Errorf("%s: started again with %d MiB", name, last)
			}
		})
	}
}

func TestATaskThatEndsDuringItsUpdateIsNotRestartedForIt(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := sized(64)
		a.Job.Type = "batch"
		b.driver.onUpdate = func(id string, _ driver.Resources) error {
			task, err := b.driver.get(id)
			if err != nil {
				return err
			}
			b.driver.finish(task, driver.ExitResult{})
			return errdefs.FailedPreconditionf("the task has ended")
		}
		b.run(a)
		synctest.Wait()
		b.r.Update(resized(a, 128))
		synctest.Wait()
		b.wants("", "complete")
		if got := b.events("web"); strings.Contains(got, "could not be changed") {
			t.Error(got)
		}
	})
}
