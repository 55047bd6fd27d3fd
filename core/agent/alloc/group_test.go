// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/model"
)

// successor is an alloc that replaces the alloc "a0" of the same node.
func successor(b *bed, over chan struct{}) *model.Allocation {
	b.cfg.Previous = func(id string) <-chan struct{} {
		if id != "a0" {
			return nil
		}
		return over
	}
	a := newAlloc(newTask("web"))
	a.PreviousAllocation = "a0"
	a.Job.TaskGroups[0].EphemeralDisk = &model.EphemeralDisk{Sticky: true}
	return a
}

// leave writes a file into the shared data of the alloc "a0".
func leave(t *testing.T, b *bed, name string) {
	t.Helper()
	dir := allocdir.New(b.cfg.Root, "a0")
	if err := dir.Build(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir.Shared(), "data", name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) hasData(name string) bool {
	_, err := os.Stat(filepath.Join(b.r.Dir().Shared(), "data", name))
	return err == nil
}

func TestAGroupWaitsForThePreemptedAllocsAndGoesOnOverRestartsOfTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		over := map[string]chan struct{}{"low1": make(chan struct{}), "low2": make(chan struct{})}
		b.cfg.Previous = func(id string) <-chan struct{} {
			if c := over[id]; c != nil {
				return c
			}
			return nil // this node does not have it
		}
		a := newAlloc(newTask("web"))
		a.PreemptedAllocations = []string{"low1", "gone", "low2"}
		b.run(a)
		time.Sleep(time.Minute)
		b.wants("", "pending")
		b.hasEvent("web", `step "preempted allocs" of the group has taken 30s; it waits for the allocs low1, gone, low2`)
		close(over["low2"])
		synctest.Wait()
		b.restart(nil)
		synctest.Wait()
		b.wants("", "pending")
		close(over["low1"])
		synctest.Wait()
		b.wants("web", "running")
		b.r.Stop()
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestAGroupWaitsForTheAllocBeforeAndGoesOnOverRestartsOfTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		over := make(chan struct{})
		leave(t, b, "first")
		b.run(successor(b, over))
		synctest.Wait()
		b.wants("", "pending")
		b.restart(nil)
		time.Sleep(time.Minute)
		b.wants("", "pending")
		b.hasEvent("web", `step "previous alloc" of the group has taken 30s; it waits for the alloc a0`)
		close(over)
		synctest.Wait()
		b.wants("web", "running")
		if !b.hasData("first") {
			t.Error("the data of the previous alloc was not taken over")
		}
		// What was done is not repeated by the next agent.
		if err := os.RemoveAll(filepath.Join(b.r.Dir().Shared(), "data")); err != nil {
			t.Fatal(err)
		}
		leave(t, b, "second")
		b.restart(nil)
		synctest.Wait()
		b.wants("web", "running")
		if b.hasData("second") {
			t.Error("data was taken over again after a restart of the agent")
		}
		b.r.Stop()
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestAnAllocThatIsStoppedWhileItsGroupWaitsNeverStarts(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := successor(b, make(chan struct{}))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
		if got := b.r.View().ClientDescription; got != "The allocation was stopped before it was started" {
			t.Errorf("it says %q", got)
		}
		if !b.r.Ended() || b.driver.did() != "" {
			t.Errorf("ended %v, and its driver was asked for %q", b.r.Ended(), b.driver.did())
		}
		b.restart(nil)
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestTheTimeToBecomeHealthyBeginsWhenTheGroupIsReady(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		over := make(chan struct{})
		a := successor(b, over)
		a.DeploymentID = "d1"
		a.Job.TaskGroups[0].Update = &model.UpdateStrategy{HealthCheck: "task_states", MinHealthyTime: time.Second, HealthyDeadline: time.Minute}
		b.run(a)
		time.Sleep(time.Hour)
		if got := b.r.View().DeploymentStatus; got != nil {
			t.Errorf("judged while its group waits: %+v", got)
		}
		close(over)
		time.Sleep(10 * time.Second)
		if got := b.r.View().DeploymentStatus; !got.IsHealthy() {
			t.Errorf("not healthy: %+v", got)
		}
	})
}

func TestAnAllocThatFailsBeforeItIsHealthyIsUnhealthy(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		a.DeploymentID = "d1"
		a.Job.TaskGroups[0].Update = &model.UpdateStrategy{HealthCheck: "task_states", MinHealthyTime: time.Minute, HealthyDeadline: time.Hour}
		a.Job.TaskGroups[0].Tasks[0].RestartPolicy = &model.RestartPolicy{Mode: "fail"}
		b.run(a)
		synctest.Wait()
		b.wants("web", "running")
		b.driver.end(t, "web", 1)
		synctest.Wait()
		b.wants("", "failed")
		if got := b.r.View().DeploymentStatus; !got.IsUnhealthy() {
			t.Errorf("health is %+v", got)
		}
	})
}

func TestAStepOfAGroupThatFailsIsTriedAgainAsTheRestartPolicyOfTheGroupSays(t *testing.T) {
	for _, passes := range []bool{true, false} {
		with(t, func(t *testing.T, b *bed) {
			over := make(chan struct{})
			close(over)
			a := successor(b, over)
			a.DeploymentID = "d1"
			a.Job.TaskGroups[0].Update = &model.UpdateStrategy{HealthCheck: "task_states", MinHealthyTime: time.Second, HealthyDeadline: time.Hour}
			a.Job.TaskGroups[0].RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: time.Minute, Mode: "fail"}
			obstacle := filepath.Join(b.cfg.Root, a.ID) // no folder can be made
			if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b.run(a)
			synctest.Wait()
			b.wants("", "pending")
			b.hasEvent("web", `step "previous alloc's data" of the group failed and is tried again: make the alloc directory`)
			b.restart(nil)
			if passes {
				if err := os.Remove(obstacle); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Minute)
			if passes {
				b.wants("web", "running")
				b.r.Stop()
				synctest.Wait()
				return
			}
			b.wants("", "failed")
			b.hasEvent("web", `step "previous alloc's data" of the group failed: make the alloc directory`)
			if got := b.r.View().DeploymentStatus; !got.IsUnhealthy() {
				t.Errorf("health is %+v", got)
			}
		})
	}
}

func TestAStepOfANewerAgentFailsTheAllocInsteadOfBeingSkipped(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(successor(b, make(chan struct{})))
		synctest.Wait()
		b.restart(func() {
			steps := []group.StepSpec{{Name: "quantum link", Owner: "plugin cni"}}
			state := group.New(steps)
			b.store.group = &state
		})
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", `this agent does not know the step "quantum link" of a group; upgrade it`)
	})
}
