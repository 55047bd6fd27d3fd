// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/model"
)

// owner counts what it is told.
type owner struct {
	mu       sync.Mutex
	changed  int
	restarts []string
}

func (o *owner) CheckChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed++
}

func (o *owner) CheckFailed(s checks.Spec) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.restarts = append(o.restarts, s.Run)
}

func (o *owner) told() (changed int, restarts string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed, fmt.Sprint(o.restarts)
}

// bench is a node whose checks answer what the test says.
type bed struct {
	*checks.Node
	mu      sync.Mutex
	asked   map[string]int
	running int
	most    int
	answer  func(ctx context.Context, address string) checks.Outcome
}

var (
	good = checks.Outcome{Status: checks.Success, Output: "nomad: tcp ok"}
	bad  = checks.Outcome{Status: checks.Failure, Output: "refused"}
)

func with(t *testing.T, jitter float64, f func(t *testing.T, b *bed)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{asked: map[string]int{}, answer: func(context.Context, string) checks.Outcome { return good }}
		b.Node = checks.New(checks.Config{Now: time.Now, Jitter: func() float64 { return jitter }, Ask: b.ask, Logger: hclog.NewNullLogger()})
		defer b.Close()
		f(t, b)
	})
}

func (b *bed) ask(ctx context.Context, t checks.Target) checks.Outcome {
	b.mu.Lock()
	b.asked[t.Address]++
	b.running++
	b.most = max(b.most, b.running)
	answer := b.answer
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.running--
		b.mu.Unlock()
	}()
	return answer(ctx, t.Address)
}

func (b *bed) says(o checks.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = func(context.Context, string) checks.Outcome { return o }
}

func (b *bed) times(address string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[address]
}

// spec is a check, by its address.
func spec(id, run string, c *model.ServiceCheck) checks.Spec {
	return checks.Spec{ID: id, Service: "web", Check: c, Run: run, Began: time.Now(), Resolve: func() (checks.Target, error) {
		return checks.Target{Check: c, Address: id}, nil
	}}
}

func tcp() *model.ServiceCheck {
	return &model.ServiceCheck{Type: "tcp", Interval: 10 * time.Second, Timeout: time.Second}
}

func stateOf(t *testing.T, a *checks.Alloc, id string) checks.State {
	t.Helper()
	for _, r := range a.Results() {
		if r.Spec.ID == id {
			return r.State
		}
	}
	t.Fatalf("no check %s", id)
	return checks.State{}
}

func TestACheckRunsAtItsIntervalAndTellsOnlyChanges(t *testing.T) {
	with(t, 0.5, func(t *testing.T, b *bed) {
		var o owner
		a := b.Open(&o)
		a.Want([]checks.Spec{spec("a", "web/1", tcp())}, nil)
		if s := stateOf(t, a, "a"); s.Status != checks.Pending {
			t.Errorf("before the first run: %+v", s)
		}
		time.Sleep(450 * time.Millisecond)
		synctest.Wait()
		if b.times("a") != 0 {
			t.Error("it did not wait for its jitter")
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := b.times("a"); n != 1 {
			t.Errorf("asked %d times in an interval", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := b.times("a"); n != 7 {
			t.Errorf("asked %d times in 7 intervals", n)
		}
		if n, _ := o.told(); n != 1 {
			t.Errorf("told %d times of one change", n)
		}
	})
}

func TestAFlapBeginsTheTimeOfHealthAnew(t *testing.T) {
	with(t, 0, func(t *testing.T, b *bed) {
		var o owner
		a := b.Open(&o)
		a.Want([]checks.Spec{spec("a", "web/1", tcp())}, nil)
		time.Sleep(5 * time.Second)
		first := stateOf(t, a, "a").GoodSince
		b.says(bad)
		time.Sleep(10 * time.Second)
		if s := stateOf(t, a, "a"); s.Status != checks.Failure || !s.GoodSince.IsZero() || s.Output != "refused" {
			t.Errorf("after a failure: %+v", s)
		}
		b.says(good)
		time.Sleep(10 * time.Second)
		if s := stateOf(t, a, "a"); s.Status != checks.Success || s.GoodSince.Sub(first) < 15*time.Second {
			t.Errorf("good since %s, at first since %s", s.GoodSince, first)
		}
		if n, _ := o.told(); n != 3 {
			t.Errorf("told %d times of three changes", n)
		}
	})
}

func TestAHangingCheckDelaysNeitherOtherAllocsNorItself(t *testing.T) {
	with(t, 0, func(t *testing.T, b *bed) {
		b.answer = func(ctx context.Context, address string) checks.Outcome {
			if address == "free" {
				return good
			}
			<-ctx.Done()
			return bad
		}
		var o owner
		hanging := b.Open(&o)
		var specs []checks.Spec
		for i := range 100 {
			c := tcp()
			c.Interval, c.Timeout = time.Second, time.Minute
			specs = append(specs, spec(fmt.Sprint(i), "web/1", c))
		}
		hanging.Want(specs, nil)
		free := b.Open(&o)
		free.Want([]checks.Spec{spec("free", "web/1", tcp())}, nil)
		time.Sleep(95 * time.Second)
		synctest.Wait()
		if n := b.times("free"); n != 10 {
			t.Errorf("the check of another alloc ran %d times in 95 s", n)
		}
		b.mu.Lock()
		if b.most > 9 {
			t.Errorf("%d checks ran at the same time; one alloc may have 8", b.most)
		}
		b.mu.Unlock()
		if s := stateOf(t, hanging, "0"); s.Status != checks.Failure {
			t.Errorf("a check that hangs: %+v", s)
		}
		hanging.Close() // ends what hangs
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.running != 0 {
			t.Errorf("%d checks still run", b.running)
		}
	})
}

func TestChecksThatWaitHaveNoGoroutine(t *testing.T) {
	with(t, 0, func(t *testing.T, b *bed) {
		before := runtime.NumGoroutine()
		var o owner
		a := b.Open(&o)
		var specs []checks.Spec
		for i := range 1000 {
			specs = append(specs, spec(fmt.Sprint(i), "web/1", tcp()))
		}
		a.Want(specs, nil)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if n := b.times("999"); n != 4 {
			t.Errorf("the last check ran %d times", n)
		}
		if n := runtime.NumGoroutine() - before; n > 5 {
			t.Errorf("%d goroutines for checks that wait", n)
		}
	})
}

func TestCheckRestartCountsFailuresInARowAfterTheGrace(t *testing.T) {
	with(t, 0, func(t *testing.T, b *bed) {
		b.says(bad)
		c := tcp()
		c.CheckRestart = &model.CheckRestart{Limit: 3, Grace: 15 * time.Second}
		var o owner
		a := b.Open(&o)
		a.Want([]checks.Spec{spec("a", "web/1", c)}, nil)
		time.Sleep(39 * time.Second) // results at 0, 10, 20 and 30
		synctest.Wait()
		if _, got := o.told(); got != "[]" {
			t.Errorf("restarted too early: %s", got)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, got := o.told(); got != "[web/1]" {
			t.Errorf("restarts: %s", got)
		}
		a.Want([]checks.Spec{spec("a", "", c)}, nil) // the task ends
		n := b.times("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.times("a") != n {
			t.Error("a check of a task that does not run was asked")
		}
		b.says(good)
		a.Want([]checks.Spec{spec("a", "web/2", c)}, nil)
		if s := stateOf(t, a, "a"); s.Status != checks.Pending {
			t.Errorf("the check of a new run begins as %+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := stateOf(t, a, "a"); s.Status != checks.Success {
			t.Errorf("the check of the new run: %+v", s)
		}
	})
}

func TestTheResultOfAnEndedRunCountsForNothing(t *testing.T) {
	with(t, 0, func(t *testing.T, b *bed) {
		b.answer = func(ctx context.Context, _ string) checks.Outcome { <-ctx.Done(); return bad }
		c := tcp()
		c.Timeout = 5 * time.Second
		c.CheckRestart = &model.CheckRestart{Limit: 1}
		var o owner
		a := b.Open(&o)
		a.Want([]checks.Spec{spec("a", "web/1", c)}, nil)
		time.Sleep(2 * time.Second) // it is under way
		b.says(good)
		a.Want([]checks.Spec{spec("a", "", c)}, nil)
		a.Want([]checks.Spec{spec("a", "web/2", c)}, nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := stateOf(t, a, "a"); s.Status != checks.Success || s.Run != "web/2" {
			t.Errorf("the new run's check: %+v", s)
		}
		if _, got := o.told(); got != "[]" {
			t.Errorf("restarted for a run that is over: %s", got)
		}
	})
}

func TestAKeptStateHoldsUntilItIsConfirmed(t *testing.T) {
	with(t, 0.9, func(t *testing.T, b *bed) {
		since := time.Now().Add(-time.Hour).UTC()
		var o owner
		a := b.Open(&o)
		a.Want([]checks.Spec{spec("a", "web/1", tcp())}, map[string]checks.State{"a": {Status: checks.Success, Run: "web/1", GoodSince: since}})
		if r := a.Results()[0]; !r.Restored || r.State.Status != checks.Success {
			t.Errorf("after a restart: %+v", r)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if r := a.Results()[0]; r.Restored || !r.State.GoodSince.Equal(since) {
			t.Errorf("after the first result: %+v", r)
		}
		if n, _ := o.told(); n != 1 {
			t.Errorf("told %d times that the kept state is confirmed", n)
		}
	})
}

// A new version of a job can give a service, and so its check, another port while the task runs.
func TestACheckOfAnotherPortBeginsAnew(t *testing.T) {
	with(t, 0.9, func(t *testing.T, b *bed) {
		kept := map[string]checks.State{"a": {Status: checks.Success, Run: "web/1", GoodSince: time.Now().Add(-time.Hour).UTC(), Port: "http"}}
		s := spec("a", "web/1", tcp())
		s.Port = "http"
		var o owner
		a := b.Open(&o)
		a.Want([]checks.Spec{s}, kept)
		if got := stateOf(t, a, "a"); got.Status != checks.Success {
			t.Errorf("of the same port it is %+v", got)
		}
		s.Port = "admin"
		a.Want([]checks.Spec{s}, kept)
		if got := stateOf(t, a, "a"); got.Status != checks.Pending || !got.GoodSince.IsZero() {
			t.Errorf("of another port it is %+v", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := stateOf(t, a, "a"); got.Status != checks.Success || b.times("a") == 0 {
			t.Errorf("it is not run soon: %+v", got)
		}
		// The version before, whose agent knew no ports, and an agent that learns of the change
		// when it starts.
		for port, want := range map[string]checks.Status{"": checks.Success, "http": checks.Pending} {
			kept["a"] = checks.State{Status: checks.Success, Run: "web/1", Port: port}
			a := b.Open(&o)
			a.Want([]checks.Spec{s}, kept)
			if got := stateOf(t, a, "a"); got.Status != want {
				t.Errorf("kept for port %q it is %+v, want %s", port, got, want)
			}
			a.Close()
		}
	})
}

func TestACheckWithoutAnAddressFailsWithTheCause(t *testing.T) {
	with(t, 0, func(t *testing.T, b *bed) {
		var o owner
		s := spec("a", "web/1", tcp())
		s.Resolve = func() (checks.Target, error) { return checks.Target{}, fmt.Errorf("the alloc has no port %q", "x") }
		a := b.Open(&o)
		a.Want([]checks.Spec{s}, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if s := stateOf(t, a, "a"); s.Status != checks.Failure || s.Output != `the alloc has no port "x"` {
			t.Errorf("%+v", s)
		}
	})
}

func TestACheckThatMovesWhileItRunsGoesToItsNewAddressFromThenOn(t *testing.T) {
	with(t, 0, func(t *testing.T, b *bed) {
		b.answer = func(ctx context.Context, _ string) checks.Outcome {
			select {
			case <-time.After(900 * time.Millisecond):
			case <-ctx.Done():
			}
			return good
		}
		var o owner
		a := b.Open(&o)
		old := spec("a", "web/1", tcp())
		a.Want([]checks.Spec{old}, nil)
		time.Sleep(500 * time.Millisecond) // it runs
		moved := old
		moved.Resolve = func() (checks.Target, error) { return checks.Target{Check: old.Check, Address: "b"}, nil }
		a.Want([]checks.Spec{moved}, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if from, to := b.times("a"), b.times("b"); from != 1 || to < 5 {
			t.Errorf("asked %d times at the old address and %d times at the new one", from, to)
		}
	})
}
