// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// stuck is a process that is alive and whose driver is stuck while it is so.
type stuck struct {
	*process
	is    bool
	tried int
}

func (s *stuck) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	s.tried++
	if s.is {
		<-ctx.Done()
		return nil, errdefs.DeadlineExceededf("no answer: %w", ctx.Err())
	}
	return s.process.InspectTask(ctx, id)
}

func TestCallsOfADriverThatDoesNotAnswerFailAtOnceAndItsTasksAreNotTakenForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newProcess()
		ended := make(chan struct{})
		first.wait = func(context.Context, int) (driver.ExitResult, error) {
			<-ended
			return driver.ExitResult{ExitCode: 7}, nil
		}
		s := &stuck{process: first, is: true}
		told := 0
		p := driver.NewProxy(first.Info(), driver.DefaultLimits(), driver.Hooks{Answering: func() { told++ }})
		p.Attach(t.Context(), s)
		if _, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); err != nil {
			t.Fatal(err)
		}
		result := make(chan driver.ExitResult, 1)
		go func() {
			r, err := p.WaitTask(t.Context(), "t")
			if err != nil {
				t.Errorf("the wait: %v", err)
			}
			result <- r
		}()
		for range 5 {
			begin := time.Now()
			if _, err := p.InspectTask(t.Context(), "t"); !errdefs.IsDeadlineExceeded(err) || time.Since(begin) != driver.DefaultLimits().Call {
				t.Fatalf("after %s: %v", time.Since(begin), err)
			}
		}
		begin := time.Now()
		for range 100 {
			if _, err := p.InspectTask(t.Context(), "t"); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "has not answered since 2000-") {
				t.Fatalf("class %s: %v", errdefs.ClassOf(err), err)
			}
		}
		if s.tried != 5 || time.Since(begin) != 0 || told != 1 {
			t.Fatalf("%d calls reached the driver, which took %s; told %d times", s.tried, time.Since(begin), told)
		}
		if _, why := p.Unanswering(); why == nil {
			t.Fatal("it does not say that the driver is not answering")
		}
		s.is = false
		time.Sleep(10 * time.Second)
		if _, err := p.InspectTask(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if _, why := p.Unanswering(); why != nil || told != 2 {
			t.Fatalf("it still does not answer: %v (told %d times)", why, told)
		}
		close(ended)
		if r := <-result; r.ExitCode != 7 {
			t.Fatalf("the task's result is %+v", r)
		}
	})
}

func TestStartsThatFailForTheirOwnReasonsHoldNothingElseUp(t *testing.T) {
	first := newProcess()
	p := driver.NewProxy(first.Info(), driver.DefaultLimits(), driver.Hooks{})
	p.Attach(t.Context(), &noImage{first})
	for range 10 {
		if _, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); !errdefs.IsUnavailable(err) {
			t.Fatal(err)
		}
	}
	if _, err := p.InspectTask(t.Context(), "other"); !errdefs.IsNotFound(err) {
		t.Fatalf("the driver's answer about another task: %v", err)
	}
}

// noImage cannot start anything now.
type noImage struct{ *process }

func (*noImage) StartTask(context.Context, *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	return nil, nil, errdefs.Unavailablef("the registry is away")
}

func (*noImage) StopTask(_ context.Context, id string, _ time.Duration, _ string) error {
	return errdefs.NotFoundf("task %q", id)
}

func TestADriverIsIdleOnceNoTaskIsKnownAndNoCallIsUnderWay(t *testing.T) {
	first := newProcess()
	wanted := 0
	p := driver.NewProxy(first.Info(), driver.Limits{Ready: time.Millisecond, Call: time.Second, Start: time.Second}, driver.Hooks{Demand: func() { wanted++ }})
	if _, err := p.InspectTask(t.Context(), "t"); !errdefs.IsUnavailable(err) || wanted != 1 {
		t.Fatalf("a call without a process: %v, wanted %d times", err, wanted)
	}
	p.Attach(t.Context(), first)
	if _, _, err := p.StartTask(t.Context(), &driver.TaskConfig{ID: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, idle := p.Idle(); idle {
		t.Fatal("idle with a task")
	}
	if err := p.DestroyTask(t.Context(), driver.TaskRef{ID: "t"}, true); err != nil {
		t.Fatal(err)
	}
	if since, idle := p.Idle(); !idle || time.Since(since) > time.Minute {
		t.Fatalf("idle %v since %s", idle, since)
	}
}
