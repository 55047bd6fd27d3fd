// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/cgroup"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeCgroups has the groups of tasks in memory.
type fakeCgroups struct {
	mu    sync.Mutex
	log   []string
	made  map[string]*cgroup.Task
	cores map[string][]int
	kills func(name string) // what a removal does to the task
	fails error
}

func newCgroups(b *bed) *fakeCgroups {
	c := &fakeCgroups{made: map[string]*cgroup.Task{}, cores: map[string][]int{}}
	b.cfg.Cgroups, b.driver.cgroup = c, driver.HostCgroupBare
	return c
}

func (c *fakeCgroups) Make(_ context.Context, t cgroup.Task) (*cgroup.Group, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log, c.made[t.Name] = append(c.log, "make "+t.Name), &t
	return &cgroup.Group{Version: 2, Dirs: map[string]string{"cpuset": "/cg/" + t.Name}}, c.fails
}

func (c *fakeCgroups) Has(_, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made[name] != nil
}

func (c *fakeCgroups) Remove(_ context.Context, _, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, "remove "+name)
	delete(c.made, name)
	if c.kills != nil {
		c.kills(name)
	}
	return nil
}

func (c *fakeCgroups) Reserve(alloc string, cores []int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := !slices.Equal(c.cores[alloc], cores)
	c.cores[alloc] = cores
	return changed
}

func (c *fakeCgroups) Adjust(context.Context) error { return nil }

// Shared returns the cores of a machine with 4 that no alloc has reserved.
func (c *fakeCgroups) Shared() (cores []int, fewer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for core := range 4 {
		held := false
		for _, cores := range c.cores {
			held = held || slices.Contains(cores, core)
		}
		if !held {
			cores = append(cores, core)
		}
	}
	return cores, len(cores) < 4
}

func (c *fakeCgroups) did() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.log, ", ")
}

func TestATaskHasItsCgroupFromBeforeItsStartUntilAfterItsEnd(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c := newCgroups(b)
		a := newAlloc(newTask("web"))
		a.AllocatedResources = &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"web": {
			Cpu: model.AllocatedCpuResources{CpuShares: 500, ReservedCores: []uint16{3, 1}}, Memory: model.AllocatedMemoryResources{MemoryMB: 64, MemoryMaxMB: 128},
		}}}
		b.run(a)
		synctest.Wait()
		got := b.driver.configs[0].Cgroup
		if got == nil || got.Version != 2 || got.Dirs["cpuset"] != "/cg/web" || c.made["web"].Limits != nil || len(c.made["web"].Cores) != 2 {
			t.Errorf("the driver got %+v of %+v", got, c.made["web"])
		}
		if !slices.Equal(c.cores["a1"], []int{1, 3}) {
			t.Errorf("the alloc has the cores %v for itself", c.cores["a1"])
		}
		b.driver.cgroup = driver.HostCgroupLimited
		if err := b.r.Restart("web", false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if l := c.made["web"].Limits; l == nil || l.MemoryBytes != 128<<20 || l.MemoryLowBytes != 64<<20 || l.CPUShares != 500 {
			t.Errorf("limits %+v", l)
		}
		b.restart(nil)
		b.r.Update(stopped(a))
		synctest.Wait()
		if got := c.did(); got != "make web, remove web, make web, remove web" {
			t.Error(got)
		}
		if len(c.cores["a1"]) != 0 {
			t.Errorf("the ended alloc has the cores %v for itself", c.cores["a1"])
		}
	})
}

func TestAStartThatFailsLeavesNoCgroup(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c := newCgroups(b)
		b.driver.onStart = func(context.Context, *driver.TaskConfig) error { return errdefs.InvalidArgumentf("never") }
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.wants("", "failed")
		if got := c.did(); got != "make web, remove web" {
			t.Error(got)
		}
	})
}

func TestAnInterruptedStartIsBegunAgainInANewCgroup(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c := newCgroups(b)
		b.driver.onStart = interrupted(1)
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.wants("web", "running")
		if got := c.did(); got != "make web, make web" {
			t.Error(got)
		}
	})
}

func TestADestroyThatHangsIsToldAndHoldsUpNeitherTheStopNorTheNextRun(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c := newCgroups(b)
		b.driver.with(func() { b.driver.destroying = 24 * time.Hour })
		task := newTask("web")
		task.RestartPolicy = &model.RestartPolicy{Mode: "delay", Attempts: 5, Delay: time.Second, Interval: time.Hour}
		a := newAlloc(task)
		b.run(a)
		synctest.Wait()
		b.driver.end(t, "web", 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("web", "running") // again, while the first run is not destroyed
		time.Sleep(5 * time.Minute)
		if got := c.did(); got != "make web, make web" {
			t.Errorf("the end of the first run touched the second: %s", got)
		}
		b.hasEvent("web", `driver "fake" does not free what the ended task held`)
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
		time.Sleep(time.Minute)
		if got := c.did(); !strings.HasSuffix(got, "make web, remove web") {
			t.Errorf("what was left of the task was not killed: %s", got)
		}
	})
}

func TestATaskThatItsDriverDoesNotStopIsKilledByTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		c := newCgroups(b)
		b.driver.with(func() {
			b.driver.destroying = 24 * time.Hour
			b.driver.onStop = func(*fakeTask, time.Duration) error { return errdefs.DeadlineExceededf("it does not end") }
		})
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := b.r.View().ClientStatus; s != "complete" || c.Has("a1", "web") {
			t.Errorf("the alloc is %s; the cgroups: %s", s, c.did())
		}
		b.hasEvent("web", `driver "fake" does not end the task, so the agent has killed its processes`)
	})
}

func TestATaskThatOnlyItsDriverCanReachIsNotSaidToHaveEnded(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.with(func() {
			b.driver.destroying = 24 * time.Hour
			b.driver.onStop = func(*fakeTask, time.Duration) error { return errdefs.DeadlineExceededf("it does not end") }
		})
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		time.Sleep(10 * time.Minute)
		b.wants("web", "running")
		b.driver.with(func() { b.driver.onStop, b.driver.destroying = nil, 0 })
		time.Sleep(time.Minute)
		b.wants("", "complete")
	})
}

func TestTheReasonWhyATaskIsLostIsInItsEvents(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.restart(func() { b.driver.with(func() { clear(b.driver.tasks) }) })
		synctest.Wait()
		b.hasEvent("web", fmt.Sprintf("failed to restore task: no task %q", "a1/web/1"))
	})
}

func TestATaskWhoseStopWaitsForItsPluginIsTold(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.driver.with(func() { b.driver.away = errdefs.Unavailablef("no plugin serves it") })
		b.r.Update(stopped(a))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		const told = "the driver cannot stop the task yet and is asked again until it can: no plugin serves it"
		if got := strings.Count(b.events("web"), told); got != 1 {
			t.Errorf("the task is told %d times: %s", got, b.events("web"))
		}
		b.driver.with(func() { b.driver.away = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestATaskThatCannotBeTakenOverYetIsTold(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.restart(func() { b.driver.away = errdefs.Unavailablef("no plugin serves it") })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		const told = "the driver cannot take over the running task yet and is asked again until it can: no plugin serves it"
		if got := strings.Count(b.events("web"), told); got != 1 {
			t.Errorf("the task is told %d times: %s", got, b.events("web"))
		}
	})
}
