// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// withPauser is with for a driver that can pause tasks.
func withPauser(t *testing.T, f func(t *testing.T, b *bed)) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.features = []driver.Feature{driver.FeaturePause}
		f(t, b)
	})
}

func frozen(b *bed) string { return strings.Join(b.r.Paused(b.t.Context()), " ") }

func TestATaskIsPausedAndResumedAndItsEventsSayWhatTheDriverSaid(t *testing.T) {
	withPauser(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		for range 2 { // a request that is repeated
			if err := b.r.Pause(t.Context(), "web", true); err != nil {
				t.Fatal(err)
			}
		}
		if got := frozen(b); got != "web" {
			t.Errorf("paused: %q", got)
		}
		if err := b.r.Pause(t.Context(), "", false); err != nil || frozen(b) != "" {
			t.Errorf("resumed: %v, still paused %q", err, frozen(b))
		}
		var said []string
		for _, e := range b.r.View().TaskStates["web"].Events {
			said = append(said, e.Type)
		}
		if got := said[len(said)-2:]; !slices.Equal(got, []string{"Paused", "Resumed"}) || slices.Index(said, "Paused") != len(said)-2 {
			t.Errorf("events %q, want one Paused and one Resumed", said)
		}
		if err := b.r.Pause(t.Context(), "db", true); !errdefs.IsInvalidArgument(err) {
			t.Errorf("an unknown task: %v", err)
		}
	})
}

func TestWhatSomebodyElsePausedIsSeenWhenItIsAskedFor(t *testing.T) {
	withPauser(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.driver.with(func() {
			for _, x := range b.driver.tasks {
				x.paused = true
			}
		})
		if got := frozen(b); got != "web" {
			t.Errorf("paused: %q", got)
		}
		b.hasEvent("web", "frozen")
	})
}

func TestANewAgentAsksTheDriverWhetherItsTasksArePaused(t *testing.T) {
	withPauser(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		if err := b.r.Pause(t.Context(), "web", true); err != nil {
			t.Fatal(err)
		}
		b.restart(func() { // somebody resumes it while no agent runs
			for _, x := range b.driver.tasks {
				x.paused = false
			}
		})
		synctest.Wait()
		b.hasEvent("web", "The task continues")
		if got := frozen(b); got != "" {
			t.Errorf("paused: %q", got)
		}
		did(t, b, "start web")
	})
}

func TestAPausedTaskIsNotHealthyAndItsTimeBeginsWhenItIsResumed(t *testing.T) {
	withPauser(t, func(t *testing.T, b *bed) {
		b.run(sized(64))
		synctest.Wait()
		if err := b.r.Pause(t.Context(), "web", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if h := healthy(b); h != nil {
			t.Fatalf("healthy is %v while the task is paused", *h)
		}
		if err := b.r.Pause(t.Context(), "web", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if h := healthy(b); h != nil {
			t.Fatalf("healthy is %v before min_healthy_time", *h)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h := healthy(b); h == nil || !*h {
			t.Error("not healthy after min_healthy_time")
		}
	})
}

func TestAPausedTaskIsUnhealthyAtItsDeadlineAndTheReasonIsSaid(t *testing.T) {
	withPauser(t, func(t *testing.T, b *bed) {
		b.run(sized(64))
		synctest.Wait()
		if err := b.r.Pause(t.Context(), "web", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if h := healthy(b); h == nil || *h {
			t.Fatal("not unhealthy at the deadline")
		}
		b.hasEvent("web", "Task was frozen at the healthy_deadline")
		did(t, b, "start web")
	})
}

func TestOnlyWhatRunsIsPausedAndOnlyByADriverThatCan(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		if err := b.r.Pause(t.Context(), "", true); !errdefs.IsUnimplemented(err) || !strings.Contains(err.Error(), `driver "fake" of task "web" cannot pause`) {
			t.Errorf("a driver that cannot: %v", err)
		}
		b.driver.with(func() { b.driver.features = []driver.Feature{driver.FeaturePause} })
		b.driver.onStop = func(*fakeTask, time.Duration) error { return nil } // it takes its time
		b.r.Stop()
		synctest.Wait()
		if err := b.r.Pause(t.Context(), "web", true); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("a task that is being stopped: %v", err)
		}
	})
}
