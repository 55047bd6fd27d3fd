// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// with runs f in a bubble of its own time; the runner that is left is closed.
func with(t *testing.T, f func(t *testing.T, b *bed)) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, root)
		defer func() {
			if b.r != nil {
				b.r.Close()
			}
			b.cfg.Checks.Close()
		}()
		f(t, b)
	})
}

func TestTasksStartInOrderAndStopInOrder(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("main"), newTask("init:prestart"), newTask("proxy:prestart:sidecar"), newTask("hello:poststart"), newTask("bye:poststop"))
		b.run(a)
		synctest.Wait()
		b.wants("init proxy", "running")
		b.driver.end(t, "init", 0)
		synctest.Wait()
		b.wants("hello main proxy", "running")
		b.driver.end(t, "hello", 0)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("bye", "running")
		b.driver.end(t, "bye", 0)
		synctest.Wait()
		b.wants("", "complete")
		if got := b.driver.did(); !strings.HasSuffix(got, "start main, start hello, stop main, stop proxy, start bye") {
			t.Error(got)
		}
	})
}

func TestAFailingTaskIsStartedAgainAfterItsDelayAndThenFailsTheAlloc(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		web := newTask("web")
		web.RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: 10 * time.Second, Mode: "fail"}
		b.run(newAlloc(web))
		synctest.Wait()
		b.driver.end(t, "web", 1)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		b.wants("", "running")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		b.driver.end(t, "web", 1)
		synctest.Wait()
		b.wants("", "failed")
		if !b.r.Ended() || b.r.EndedAt().IsZero() {
			t.Error("the runner does not say that it has ended")
		}
	})
}

func TestAKillTimeoutIsBoundedByTheNode(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.cfg.MaxKillTimeout = 7 * time.Second
		var asked time.Duration
		b.driver.onStop = func(x *fakeTask, timeout time.Duration) error {
			asked = timeout
			b.driver.finish(x, driver.ExitResult{ExitCode: 0})
			return nil
		}
		web := newTask("web")
		web.KillTimeout = time.Hour
		a := newAlloc(web)
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
		if asked != 7*time.Second || b.driver.configs[0].KillTimeout != 7*time.Second {
			t.Errorf("asked for %s, config %s", asked, b.driver.configs[0].KillTimeout)
		}
	})
}

func TestATaskThatDoesNotEndIsDestroyed(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onStop = func(*fakeTask, time.Duration) error { return errdefs.Unavailablef("busy") }
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		b.wants("", "complete")
		if got := b.driver.did(); !strings.HasSuffix(got, "destroy web") {
			t.Error(got)
		}
	})
}

func TestAStopDuringAStartEndsTheStart(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onStart = func(ctx context.Context, _ *driver.TaskConfig) error { <-ctx.Done(); return ctx.Err() }
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		if s := b.r.Steps()[0]; s.Step != alloc.StepDriver || s.Deadline.Sub(s.Since) != b.cfg.Limits.Driver {
			t.Errorf("%+v", s)
		}
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
		if got := b.events("web"); !strings.HasSuffix(got, "Building Task Directory; Task successfully killed") {
			t.Error(got)
		}
	})
}

func TestAStartThatSucceedsAfterItWasGivenUpLeavesNothingBehind(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.onStart = func(ctx context.Context, _ *driver.TaskConfig) error { time.Sleep(time.Minute); return nil }
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		b.wants("", "complete") // nobody waits for the driver
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestAHungStartHoldsNobodyElseUp(t *testing.T) {
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, root)
		b.driver.onStart = func(ctx context.Context, c *driver.TaskConfig) error {
			if c.Name == "hung" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		var hung []*alloc.Runner
		for _, id := range []string{"h1", "h2", "h3"} { // more than starts at the same time
			a := newAlloc(newTask("hung"))
			a.ID = id
			r, err := alloc.New(b.cfg, a)
			if err != nil {
				t.Fatal(err)
			}
			r.Start()
			hung = append(hung, r)
		}
		synctest.Wait()
		b.run(newAlloc(newTask("web")))
		time.Sleep(b.cfg.Limits.Lend + time.Second)
		synctest.Wait()
		b.wants("web", "running")
		time.Sleep(b.cfg.Limits.Slow)
		synctest.Wait()
		if got := hung[0].View().TaskStates["hung"].Events; !strings.Contains(got[len(got)-1].DisplayMessage, `step "driver start" has taken 30s`) {
			t.Errorf("%+v", got[len(got)-1])
		}
		time.Sleep(b.cfg.Limits.Driver)
		synctest.Wait()
		v := hung[0].View()
		if v.ClientStatus != "failed" {
			t.Errorf("a start that never ends left its alloc %s", v.ClientStatus)
		}
		if s := hung[0].Steps()[0]; !strings.Contains(s.LastError, `step "driver start" did not end within 31m0s`) || s.Step != "" {
			t.Errorf("%+v", s)
		}
		for _, r := range append(hung, b.r) {
			r.Close()
		}
	})
}

func TestARunningTaskIsTakenOverAfterARestartOfTheAgent(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web"), newTask("init:prestart")))
		synctest.Wait()
		b.driver.end(t, "init", 0)
		synctest.Wait()
		b.restart(func() { b.driver.away = errdefs.Unavailablef("the plugin restarts") })
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("web", "running")
		b.driver.mu.Lock()
		b.driver.away = nil
		b.driver.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.driver.did(); got != "start init, start web" {
			t.Error(got)
		}
		b.driver.end(t, "web", 3)
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "Exit Code: 3")
	})
}

func TestOfAJobOnlyTheAllocsOwnGroupIsStored(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		own := a.Job.TaskGroups[0]
		a.Job.TaskGroups = []*model.TaskGroup{{Name: "before"}, own, {Name: "after"}}
		b.run(a)
		synctest.Wait()
		if got := b.store.record().Alloc.Job.TaskGroups; len(got) != 1 || got[0] != own {
			t.Errorf("%d groups are stored", len(got))
		}
		if n := len(b.r.Alloc().Job.TaskGroups); n != 3 {
			t.Errorf("the runner knows %d groups of 3", n)
		}
		b.restart(nil)
		synctest.Wait()
		b.wants("web", "running")
	})
}

func TestARestoredRunnerTellsOnlyWhatItsDriverHasConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(b *bed)
		status    string // as it is told first, and the state of the task
		task      string
	}{
		"it runs":                      {func(*bed) {}, "running", "running"},
		"the machine was started anew": {func(b *bed) { b.driver.with(func() { clear(b.driver.tasks) }) }, "running", "pending"}, // to be started again after its delay
		"its driver never knows":       {func(b *bed) { b.driver.with(func() { b.driver.unsure = 100 }) }, "running", "running"},
		"it ends while its driver finds out": {func(b *bed) {
			b.driver.with(func() { b.driver.unsure = 2 })
			time.AfterFunc(300*time.Millisecond, func() { b.driver.end(b.t, "web", 1) })
		}, "running", "pending"},
		"it has ended": {func(b *bed) { b.driver.end(b.t, "web", 0) }, "running", "pending"},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				web := newTask("web")
				web.RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: time.Minute, Mode: "fail"}
				var told []*model.Allocation
				b.cfg.Publish = func(v *model.Allocation) { told = append(told, v) }
				b.run(newAlloc(web))
				synctest.Wait()
				b.restart(func() {
					b.driver.away = errdefs.Unavailablef("the plugin is not there yet")
					told = nil
				})
				back := b.r.Alloc().Copy()
				back.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: time.Now()}}
				b.r.Update(back)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if _, ok := b.r.Report(); ok || len(told) > 0 {
					t.Fatalf("told of a task that nobody has looked at: %+v", told)
				}
				b.driver.mu.Lock()
				b.driver.away = nil
				b.driver.mu.Unlock()
				c.meanwhile(b)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if len(told) == 0 || told[0].ClientStatus != c.status || told[0].TaskStates["web"].State != c.task {
					t.Fatalf("told first %+v", told)
				}
				b.hasEvent("web", "Client reconnected")
			})
		})
	}
}

func TestAStartThatTheAgentDidNotSeeEndIsMadeAnew(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		first := true
		b.driver.onStart = func(ctx context.Context, _ *driver.TaskConfig) error {
			if first {
				first = false
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.restart(nil)
		synctest.Wait()
		b.wants("web", "running")
		if got := b.driver.did(); got != "start web, start web" {
			t.Error(got)
		}
	})
}

func TestAnAllocThatIsStoppedWhileNoAgentRunsStopsAfterwards(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.restart(nil)
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestAnEndedAllocIsDestroyedWithItsDirectory(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		if err := b.r.Destroy(t.Context()); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("a running alloc was destroyed: %v", err)
		}
		if _, err := os.Stat(filepath.Join(b.r.Dir().Path, "web", "secrets")); err != nil {
			t.Error(err)
		}
		b.r.Update(stopped(a))
		synctest.Wait()
		if err := b.r.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(b.r.Dir().Path); !errors.Is(err, os.ErrNotExist) || !b.store.gone {
			t.Errorf("something is left: %v", err)
		}
	})
}

func TestAllTasksOfAnAllocRestartInTheirOrder(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("main"), newTask("init:prestart"), newTask("bye:poststop")))
		synctest.Wait()
		b.driver.end(t, "init", 0)
		synctest.Wait()
		if err := b.r.Restart("", true); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wants("init", "running")
		b.driver.end(t, "init", 0)
		synctest.Wait()
		b.wants("main", "running")
		if got := b.driver.did(); got != "start init, start main, stop main, start init, start main" {
			t.Error(got)
		}
		if err := b.r.Restart("init", false); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("a task that has ended was restarted: %v", err)
		}
		b.driver.end(t, "main", 1)
		synctest.Wait()
		if err := b.r.Restart("", true); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("an alloc that ends was restarted: %v", err)
		}
	})
}

func TestOneTaskIsRestartedAlone(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("a"), newTask("b")))
		synctest.Wait()
		if err := b.r.Restart("a", false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wants("a b", "running")
		if got := b.driver.did(); strings.Count(got, "start a") != 2 || strings.Count(got, "start b") != 1 {
			t.Error(got)
		}
		if err := b.r.Restart("c", false); !errdefs.IsInvalidArgument(err) {
			t.Error(err)
		}
	})
}

func TestAHungPrestartTaskIsKilledWithItsAlloc(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("main"), newTask("init:prestart"))
		b.run(a)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.wants("init", "running")
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestWhatAnEndedTaskHoldsIsFreedThoughTheAgentEnds(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.destroying = time.Second
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		if !b.r.Ended() {
			t.Fatal("not ended")
		}
		b.r.Close()
		if n := len(b.driver.tasks); n != 0 {
			t.Errorf("the driver still holds %d tasks", n)
		}
	})
}

func TestARunIsOwnedUntilItsDriverHasDestroyedIt(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.destroying = time.Second
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		if !b.r.Ended() || !b.r.Owns("web", 1) {
			t.Errorf("ended %v; a run that is being destroyed has no owner", b.r.Ended())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if b.r.Owns("web", 1) || len(b.driver.tasks) != 0 {
			t.Errorf("a run that was destroyed is owned; the driver has %d tasks", len(b.driver.tasks))
		}
	})
}

func TestADriversErrorExplainsItselfInTheEventAndDelaysTheNextTry(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		tries := 0
		b.driver.onStart = func(context.Context, *driver.TaskConfig) error {
			if tries++; tries > 1 {
				return nil
			}
			err := errdefs.WithDetail(errdefs.WithReason(errdefs.NotFoundf("no image"), "image_not_found"), "image", "web:9")
			return errdefs.FromGRPC(errdefs.ToGRPC(errdefs.WithRetryAfter(err, 5*time.Minute)))
		}
		web := newTask("web")
		web.RestartPolicy = &model.RestartPolicy{Attempts: 1, Interval: time.Hour, Delay: 10 * time.Second, Mode: "fail"}
		b.run(newAlloc(web))
		time.Sleep(4*time.Minute + 50*time.Second)
		synctest.Wait()
		b.wants("", "pending")
		var failed *model.TaskEvent
		for _, e := range b.r.View().TaskStates["web"].Events {
			if e.Type == model.TaskDriverFailure {
				failed = e
			}
		}
		if failed == nil || failed.Details["reason"] != "image_not_found" || failed.Details["detail.image"] != "web:9" || failed.Details["retry_after"] != "5m0s" {
			t.Errorf("%+v", failed)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		b.wants("web", "running")
	})
}
