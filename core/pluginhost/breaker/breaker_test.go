// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/sdk/errdefs"
)

// thing is what is called: it fails with what it is told to.
type thing struct {
	err   error
	calls int
}

func (t *thing) call(context.Context) error {
	t.calls++
	return t.err
}

func TestCallsFailAtOnceAfterFailuresInARowAndOneAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		b := breaker.New(`driver "x"`, breaker.Config{Failures: 3, Pause: 10 * time.Second}, func() { changes++ })
		x := &thing{err: errdefs.DeadlineExceededf("no answer")}
		for range 3 {
			if err := b.Do(t.Context(), x.call); !errdefs.IsDeadlineExceeded(err) {
				t.Fatal(err)
			}
		}
		for range 100 {
			err := b.Do(t.Context(), x.call)
			if !errdefs.IsUnavailable(err) || x.calls != 3 {
				t.Fatalf("after %d calls: %v", x.calls, err)
			}
			const want = `driver "x" has not answered since 2000-01-01T00:00:00Z and is asked again in 10s, so this call was not tried: no answer`
			if err.Error() != want {
				t.Fatalf("the error is\n%v\nnot\n%s", err, want)
			}
		}
		time.Sleep(10 * time.Second)
		if err := b.Do(t.Context(), x.call); !errdefs.IsDeadlineExceeded(err) || x.calls != 4 {
			t.Fatalf("after %d calls: %v", x.calls, err)
		}
		if err := b.Do(t.Context(), x.call); !errdefs.IsUnavailable(err) || x.calls != 4 {
			t.Fatalf("one failure more opens it again: %d calls, %v", x.calls, err)
		}
		if since, _ := b.Open(); time.Since(since) != 10*time.Second {
			t.Fatalf("open since %s", since)
		}
		time.Sleep(10 * time.Second)
		x.err = nil
		for range 2 {
			if err := b.Do(t.Context(), x.call); err != nil {
				t.Fatal(err)
			}
		}
		if _, why := b.Open(); why != nil || changes != 2 {
			t.Fatalf("it is open for %v after %d changes", why, changes)
		}
	})
}

func TestOnlyOneCallAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New("x", breaker.Config{Failures: 1, Pause: time.Second}, nil)
		failing := &thing{err: errdefs.Unavailablef("away")}
		_ = b.Do(t.Context(), failing.call)
		time.Sleep(time.Second)
		release, asked := make(chan struct{}), make(chan error, 1)
		go func() {
			asked <- b.Do(t.Context(), func(context.Context) error { <-release; return nil })
		}()
		synctest.Wait()
		if err := b.Do(t.Context(), failing.call); !errdefs.IsUnavailable(err) || failing.calls != 1 {
			t.Fatalf("a second call beside the one that asks: %v, %d calls", err, failing.calls)
		}
		close(release)
		if err := <-asked; err != nil {
			t.Fatal(err)
		}
	})
}

func TestAnAnswerOrTheCallersOwnEndIsNoFailure(t *testing.T) {
	for name, outcome := range map[string]error{
		"an answer": errdefs.NotFoundf("no such task"),
		"success":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := breaker.New("x", breaker.Config{Failures: 2}, nil)
			for _, err := range []error{errdefs.Unavailablef("away"), outcome, errdefs.Unavailablef("away")} {
				_ = b.Do(t.Context(), (&thing{err: err}).call)
			}
			if _, why := b.Open(); why != nil {
				t.Fatalf("it opened: %v", why)
			}
		})
	}
	b := breaker.New("x", breaker.Config{Failures: 1}, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = b.Do(ended, (&thing{err: errdefs.DeadlineExceededf("late")}).call)
	if _, why := b.Open(); why != nil {
		t.Fatalf("the caller's end opened it: %v", why)
	}
}

func TestAnotherProcessBeginsWithAClosedBreaker(t *testing.T) {
	b := breaker.New("x", breaker.Config{Failures: 1}, nil)
	x := &thing{err: errdefs.Unavailablef("away")}
	_ = b.Do(t.Context(), x.call)
	b.Reset()
	if err := b.Do(t.Context(), x.call); x.calls != 2 {
		t.Fatalf("%d calls, %v", x.calls, err)
	}
}

func TestACallAsideNeitherStopsOthersNorAsksForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := breaker.New(`driver "x"`, breaker.Config{Failures: 2, Pause: 10 * time.Second}, nil)
		stuck := &thing{err: errdefs.DeadlineExceededf("no answer")}
		for range 10 {
			if err := b.Aside(t.Context(), stuck.call); !errdefs.IsDeadlineExceeded(err) {
				t.Fatal(err)
			}
		}
		good := &thing{}
		if err := b.Do(t.Context(), good.call); err != nil {
			t.Errorf("others cannot call: %v", err)
		}
		for range 2 {
			_ = b.Do(t.Context(), stuck.call)
		}
		time.Sleep(time.Minute)
		before := stuck.calls
		if err := b.Aside(t.Context(), stuck.call); !errdefs.IsUnavailable(err) || stuck.calls != before {
			t.Errorf("it was let through: %v", err)
		}
		if err := b.Do(t.Context(), good.call); err != nil {
			t.Error(err)
		}
		if err := b.Aside(t.Context(), good.call); err != nil {
			t.Error(err)
		}
	})
}
