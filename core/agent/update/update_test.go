// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package update_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/update"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

type server struct {
	mu      sync.Mutex
	batches [][]*model.AllocReport
	err     error
	whole   []string
	pause   time.Duration
	onSend  func()
}

func (s *server) send(_ context.Context, batch []*model.AllocReport) (rpc.UpdateAnswer, error) {
	s.mu.Lock()
	onSend := s.onSend
	s.mu.Unlock()
	if onSend != nil {
		onSend()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, batch)
	return rpc.UpdateAnswer{Whole: s.whole, Pause: s.pause}, s.err
}

// with changes or reads the server while nothing is sent.
func (s *server) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func alloc(id, status, desc string) *model.Allocation {
	return &model.Allocation{ID: id, ClientStatus: status, ClientDescription: desc}
}

func (s *server) sent() [][]*model.AllocReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches
}

// run calls f in a bubble with a buffer that sends to s.
func run(t *testing.T, f func(b *update.Buffer, s *server)) {
	runLogged(t, hclog.NewNullLogger(), f)
}

func runLogged(t *testing.T, logger hclog.Logger, f func(b *update.Buffer, s *server)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		b := update.New(s.send, logger)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		b.Told(nil, true)
		f(b, s)
		cancel()
		<-done
	})
}

func after(d time.Duration) {
	time.Sleep(d) // virtual time of the bubble
	synctest.Wait()
}

func TestAfterAPauseUrgentUpdatesLeaveAlmostAtOnceAndThenAtTicks(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(alloc("a", "pending", ""), false)
		after(50 * time.Millisecond)
		b.Put(alloc("a", "running", ""), false)
		b.Put(alloc("b", "running", ""), false)
		after(update.Lead + time.Millisecond)
		if len(s.sent()) != 1 || len(s.sent()[0]) != 2 {
			t.Fatalf("batches: %v", s.sent())
		}
		for i := range 19 { // one every 10 ms: they share one batch
			b.Put(alloc(fmt.Sprint("c", i), "running", ""), false)
			after(10 * time.Millisecond)
		}
		if len(s.sent()) != 1 {
			t.Fatalf("sent within a tick: %v", s.sent())
		}
		after(update.Tick)
		if len(s.sent()) != 2 || len(s.sent()[1]) != 19 {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestUrgentUpdatesLeaveAtTheNextTick(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(alloc("a", "running", ""), false)
		b.Put(alloc("b", "running", ""), false)
		after(210 * time.Millisecond)
		if len(s.sent()) != 1 || len(s.sent()[0]) != 2 {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestOtherUpdatesWaitForASecondAndTheNewestWins(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(alloc("a", "running", "1"), false)
		after(time.Second)
		s.with(func() { s.batches = nil })
		b.Put(alloc("a", "running", "2"), false)
		after(500 * time.Millisecond)
		b.Put(alloc("a", "running", "3"), false)
		if len(s.sent()) != 0 {
			t.Fatalf("sent early: %v", s.sent())
		}
		after(510 * time.Millisecond)
		if len(s.sent()) != 1 || s.sent()[0][0].ClientDescription != "3" {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestAnUrgentUpdateTakesAlongOnlyWhatHasWaitedForLongEnough(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(alloc("a", "running", "1"), false)
		b.Put(alloc("c", "running", "1"), false)
		after(time.Second)
		s.with(func() { s.batches = nil })
		b.Put(alloc("a", "running", "2"), false)
		after(update.Normal - update.Tick/2)
		b.Put(alloc("c", "running", "2"), false) // may soon be followed by something urgent
		after(update.Tick / 4)
		b.Put(alloc("b", "failed", ""), false) // after an idle tick it is sent almost at once
		after(update.Lead)
		if got := idsOf(s.sent()); !slices.Equal(got, []string{"b"}) {
			t.Fatalf("sent %v", got)
		}
		b.Put(alloc("b", "failed", "again"), true)
		after(update.Tick)
		if got := idsOf(s.sent()); !slices.Equal(got, []string{"b", "b a"}) {
			t.Fatalf("sent %v", got)
		}
		b.Put(alloc("c", "complete", ""), false)
		after(update.Tick)
		if got := s.sent(); len(got) != 3 || len(got[2]) != 1 || got[2][0].ClientStatus != "complete" {
			t.Fatalf("sent %v", idsOf(got))
		}
	})
}

// What need not be sent yet is sent with what must, so that a busy node sends a batch a
// second and not one for each alloc.
func TestUpdatesThatAreNotUrgentShareABatch(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		const allocs = 10
		for i := range allocs {
			b.Put(alloc(fmt.Sprint(i), "running", ""), false)
		}
		after(time.Second)
		s.with(func() { s.batches = nil })
		for i := range 3 * allocs { // three seconds, an alloc each 100 ms
			b.Put(alloc(fmt.Sprint(i%allocs), "running", fmt.Sprint(i)), false)
			after(100 * time.Millisecond)
		}
		after(update.Normal + update.Tick)
		if n := len(s.sent()); n > 4 {
			t.Errorf("%d batches in four seconds: %v", n, idsOf(s.sent()))
		}
	})
}

// idsOf returns the ids in each batch.
func idsOf(batches [][]*model.AllocReport) (out []string) {
	for _, batch := range batches {
		var ids []string
		for _, r := range batch {
			ids = append(ids, r.ID)
		}
		out = append(out, strings.Join(ids, " "))
	}
	return out
}

func TestALoadedServerThrottlesTheSender(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		s.with(func() { s.pause = 3 * time.Second })
		b.Put(alloc("a", "running", ""), false)
		after(update.Lead)
		if len(s.sent()) != 1 {
			t.Fatalf("batches: %v", s.sent())
		}
		s.with(func() { s.pause = time.Hour })
		for i := range 29 { // until just before the end of the pause
			b.Put(alloc(fmt.Sprint("b", i), "running", ""), false)
			after(100 * time.Millisecond)
		}
		if len(s.sent()) != 1 {
			t.Fatalf("sent during the pause: %d batches", len(s.sent()))
		}
		after(update.Tick + 100*time.Millisecond)
		if len(s.sent()) != 2 || len(s.sent()[1]) != 29 {
			t.Fatalf("%d batches after the pause", len(s.sent()))
		}
		s.with(func() { s.pause = 0 })
		b.Put(alloc("c", "running", ""), false)
		after(update.MaxThrottle + update.Tick) // a server cannot silence the node for an hour
		if len(s.sent()) != 3 {
			t.Fatalf("batches: %d", len(s.sent()))
		}
		after(time.Second)
		b.Put(alloc("d", "running", ""), false)
		after(update.Lead)
		if len(s.sent()) != 4 {
			t.Error("the throttle goes on after the server has recovered")
		}
	})
}

func TestUrgentUpdatesLeaveFirstIfNotAllMay(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		const many = 40
		for i := range many {
			b.Put(alloc(fmt.Sprint(i), "running", "1"), false)
		}
		after(time.Second)
		s.with(func() { s.batches, s.err = nil, errdefs.ResourceExhaustedf("too large") })
		for i := range many {
			b.Put(alloc(fmt.Sprint(i), "running", "2"), false)
		}
		after(3 * time.Second) // smaller batches are tried
		b.Put(alloc("urgent", "failed", ""), false)
		s.with(func() { s.batches, s.err = nil, nil })
		after(5 * time.Second)
		if len(s.sent()) < 2 || s.sent()[0][0].ID != "urgent" {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestWhatIsAcknowledgedIsNotSentAgain(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		for range 2 {
			b.Put(alloc("a", "running", ""), false)
			after(2 * time.Second)
		}
		if len(s.sent()) != 1 {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestAFailedSendIsPutBackButNeverOverANewerUpdate(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		s.with(func() { s.err = errors.New("no server") })
		s.with(func() {
			s.onSend = func() {
				b.Put(alloc("a", "complete", ""), false) // while the send is under way
				s.with(func() { s.onSend = nil })
			}
		})
		b.Put(alloc("a", "running", ""), false)
		b.Put(alloc("b", "running", ""), false)
		after(210 * time.Millisecond)
		s.with(func() { s.err = nil })
		after(2 * time.Second)
		if len(s.sent()) != 2 || len(s.sent()[1]) != 2 {
			t.Fatalf("batches: %v", s.sent())
		}
		for _, a := range s.sent()[1] {
			if a.ID == "a" && a.ClientStatus != "complete" {
				t.Errorf("the older update won: %v", a)
			}
		}
	})
}

func TestAnOutageIsLoggedOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	runLogged(t, hclog.New(&hclog.LoggerOptions{Output: &log}), func(b *update.Buffer, s *server) {
		s.with(func() { s.err = errdefs.Unavailablef("no server") })
		b.Put(alloc("a", "running", ""), false)
		after(5*time.Minute + time.Second)
		s.with(func() { s.err = errdefs.FailedPreconditionf("the node is not ready") })
		after(10 * time.Second)
		if n := len(s.sent()); n < 30 {
			t.Errorf("%d attempts", n)
		}
		if text := log.String(); strings.Count(text, "could not be sent") < 5 || strings.Count(text, "could not be sent") > 7 || !strings.Contains(text, "not ready") {
			t.Errorf("logged\n%s", text)
		}
		s.with(func() { s.err = nil })
	})
}

func TestASlowServerNeverBlocksARunner(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		s.with(func() { s.onSend = func() { time.Sleep(10 * time.Second) } })
		b.Put(alloc("a", "running", ""), false)
		after(time.Second)
		before := time.Now()
		for range 1000 {
			b.Put(alloc("a", "complete", ""), false)
		}
		if time.Since(before) != 0 {
			t.Error("Put took time")
		}
		after(time.Minute)
		if last := s.sent()[len(s.sent())-1]; last[0].ClientStatus != "complete" || len(s.sent()) != 2 {
			t.Errorf("batches: %v", s.sent())
		}
	})
}

func TestWhatWaitsAtTheEndIsSent(t *testing.T) {
	s := &server{}
	run(t, func(b *update.Buffer, inner *server) {
		b.Put(alloc("a", "running", ""), false)
		inner.with(func() { inner.onSend = func() { s.with(func() { s.batches = append(s.batches, nil) }) } })
		synctest.Wait()
	})
	if len(s.sent()) != 1 {
		t.Errorf("sent %d batches", len(s.sent()))
	}
}

func TestAReportThatServersRefuseDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := map[string]bool{}
		b := update.New(func(_ context.Context, batch []*model.AllocReport) (rpc.UpdateAnswer, error) {
			for _, r := range batch {
				if r.ID == "bad" {
					return rpc.UpdateAnswer{}, errdefs.InvalidArgumentf("no")
				}
			}
			for _, r := range batch {
				taken[r.ID] = true
			}
			return rpc.UpdateAnswer{}, nil
		}, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		b.Told(nil, true)
		b.Put(alloc("bad", model.AllocClientStatusFailed, ""), true)
		for i := range 20 {
			b.Put(alloc(fmt.Sprint(i), model.AllocClientStatusFailed, ""), true)
		}
		after(10 * time.Minute)
		cancel()
		<-done
		if len(taken) != 20 {
			t.Errorf("%d of 20 reports came through", len(taken))
		}
	})
}
