// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feed_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/feed"
	"github.com/drover-project/drover/sdk/errdefs"
)

// source is a plugin's stream of growing numbers.
type source struct {
	mu     sync.Mutex
	fail   error // of open
	end    bool  // streams end after one value
	silent bool  // streams bring nothing
	opened []time.Time
	n      int
	open   atomic.Int64
}

func (s *source) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *source) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return s.n
}

func (s *source) opens() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.opened...)
}

func (s *source) Open(ctx context.Context, interval time.Duration) (<-chan int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, time.Now())
	if s.fail != nil {
		return nil, s.fail
	}
	out := make(chan int)
	end, silent := s.end, s.silent
	s.open.Add(1)
	go func() {
		defer s.open.Add(-1)
		defer close(out)
		for {
			if !silent {
				select {
				case out <- s.next():
				case <-ctx.Done():
					return
				}
			}
			if end {
				return
			}
			select {
			case <-time.After(interval):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// try runs a test with a feed of the source.
func try(t *testing.T, cfg feed.Config[int, int], s *source, test func(t *testing.T, f *feed.Feed[int, int])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Name, cfg.Open, cfg.Interval = "driver x", s.Open, time.Second
		cfg.Take = func(_, got int) int { return got }
		f := feed.New(cfg)
		test(t, f)
		f.Close()
		synctest.Wait()
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d streams are open after the end of the feed", n)
		}
	})
}

func TestNothingIsOpenWhileNobodyWantsIt(t *testing.T) {
	s := &source{}
	try(t, feed.Config[int, int]{}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		time.Sleep(time.Hour) // of the bubble's clock, as below
		if v, at, err := f.Last(); v != 0 || !at.IsZero() || !errdefs.IsUnavailable(err) || len(s.opens()) != 0 {
			t.Fatalf("before anybody asked: %d of %v, %v, opened %v", v, at, err, s.opens())
		}
		v, at, err := f.Get(t.Context())
		if v != 1 || err != nil || time.Since(at) != 0 {
			t.Fatalf("the first value: %d of %v, %v", v, at, err)
		}
		time.Sleep(feed.Idle + time.Second)
		synctest.Wait()
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d streams are open %s after the last question", n, feed.Idle+time.Second)
		}
		if v, at, _ := f.Last(); v != 0 || !at.IsZero() {
			t.Errorf("left behind: %d of %v", v, at)
		}
		before := s.n
		if v, _, err := f.Get(t.Context()); v != before+1 || err != nil {
			t.Errorf("wanted again: %d, %v", v, err)
		}
	})
}

func TestOneStreamServesAllWhoAsk(t *testing.T) {
	s := &source{}
	try(t, feed.Config[int, int]{}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		var asked sync.WaitGroup
		for range 100 {
			asked.Go(func() {
				for range 60 {
					if _, _, err := f.Get(t.Context()); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
				}
			})
		}
		asked.Wait()
		if n := len(s.opens()); n != 1 {
			t.Errorf("%d streams were opened", n)
		}
	})
}

func TestAValueCountsAsOneOfNowForItsTimeToLiveFromWhenItCame(t *testing.T) {
	s := &source{end: true}
	try(t, feed.Config[int, int]{}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		_, came, err := f.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.silent, s.end = true, false }) // the next stream brings nothing
		time.Sleep(feed.TTL - time.Millisecond)
		if v, at, err := f.Get(t.Context()); v != 1 || err != nil || !at.Equal(came) {
			t.Errorf("within its time: %d of %v, %v", v, at, err)
		}
		time.Sleep(2 * time.Millisecond)
		v, at, err := f.Get(t.Context())
		if v != 1 || !at.Equal(came) || !errdefs.IsUnavailable(err) {
			t.Errorf("too old: %d of %v, %v", v, at, err)
		}
	})
}

func TestAFirstValueIsWaitedForAWhileAndASilentStreamNotAgain(t *testing.T) {
	s := &source{silent: true}
	try(t, feed.Config[int, int]{}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		for i, want := range []time.Duration{feed.Wait, 0, 0} {
			asked := time.Now()
			if _, _, err := f.Get(t.Context()); !errdefs.IsUnavailable(err) {
				t.Errorf("a silent stream: %v", err)
			}
			if waited := time.Since(asked); waited != want {
				t.Errorf("question %d waited %s, want %s", i, waited, want)
			}
		}
	})
}

func TestWhatIsNotImplementedIsAskedForOnceAProcess(t *testing.T) {
	var log strings.Builder
	s := &source{fail: errdefs.Unimplementedf("cannot measure")}
	try(t, feed.Config[int, int]{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		for range 100 {
			if _, _, err := f.Get(t.Context()); !errdefs.IsUnimplemented(err) {
				t.Fatalf("an answer: %v", err)
			}
			time.Sleep(10 * time.Second)
		}
		if n := len(s.opens()); n != 1 {
			t.Errorf("asked %d times", n)
		}
		s.set(func() { s.fail = nil })
		f.Retry()
		if v, _, err := f.Get(t.Context()); v != 1 || err != nil {
			t.Errorf("a new process: %d, %v", v, err)
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", log.String())
		}
	})
}

// keep wants the feed all the time.
func keep(f *feed.Feed[int, int], d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		f.Want()
	}
}

func TestAStreamThatEndsIsOpenedAgainWithPausesThatDoubleUpToALimit(t *testing.T) {
	var log strings.Builder
	s := &source{fail: errors.New("broken")}
	try(t, feed.Config[int, int]{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		keep(f, 10*time.Minute)
		opens := s.opens()
		for i := 1; i < len(opens); i++ {
			want := feed.BackoffMax
			if i < 7 {
				want = time.Second << (i - 1)
			}
			if got := opens[i].Sub(opens[i-1]); got != want {
				t.Errorf("pause %d is %s, want %s", i, got, want)
			}
		}
		if len(opens) < 10 {
			t.Errorf("asked only %d times", len(opens))
		}
		if n := strings.Count(log.String(), "broken"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

func TestAStreamThatBringsSomethingAndEndsIsOpenedAgainAfterAnInterval(t *testing.T) {
	s := &source{end: true}
	try(t, feed.Config[int, int]{}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		keep(f, 10*time.Second+time.Millisecond)
		if n := len(s.opens()); n < 10 || n > 12 {
			t.Errorf("opened %d times in 10 s", n)
		}
	})
}

func TestAPluginThatIsAwayIsNoErrorAndIsAskedAtOnceWhenItIsBack(t *testing.T) {
	var log strings.Builder
	s := &source{fail: errdefs.Unavailablef("is being started again")}
	try(t, feed.Config[int, int]{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		f.Want()
		keep(f, time.Minute+500*time.Millisecond)
		s.set(func() { s.fail = nil })
		back := time.Now()
		f.Retry()
		synctest.Wait()
		if v, at, err := f.Last(); v != 1 || err != nil || !at.Equal(back) {
			t.Errorf("after it is back: %d of %v, %v", v, at, err)
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", log.String())
		}
	})
}

func TestAFeedThatKeepsTellsItsLastValueWithItsTime(t *testing.T) {
	s := &source{}
	try(t, feed.Config[int, int]{Keep: true}, s, func(t *testing.T, f *feed.Feed[int, int]) {
		if _, _, err := f.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(feed.Idle + time.Minute)
		s.set(func() { s.fail = errdefs.Unavailablef("gone") })
		v, at, err := f.Get(t.Context())
		if v == 0 || time.Since(at) < time.Minute || !errdefs.IsUnavailable(err) {
			t.Errorf("the last value: %d of %v, %v", v, at, err)
		}
	})
}
