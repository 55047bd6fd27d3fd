// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package update_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/update"
	"github.com/drover-project/drover/core/model"
)

// working is an alloc whose task has had n events, the first of them Received.
func working(id, status string, n int) *model.Allocation {
	a := alloc(id, status, "")
	s := &model.TaskState{State: "pending", LastEvent: uint64(n)}
	for i := range n {
		e := model.EventReceived()
		if i > 0 {
			e = model.EventMessage(model.TaskHookMessage, fmt.Sprint(i))
		}
		e.Time = int64(i + 1)
		s.Events = append(s.Events, &e)
	}
	a.TaskStates = map[string]*model.TaskState{"t": s}
	return a
}

func TestAPendingAllocIsToldOnlyIfItStaysPending(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(working("a", "pending", 1), false)
		b.Put(alloc("other", "running", ""), false)
		after(update.Quiet - 2*time.Second)
		if len(s.sent()) != 1 || len(s.sent()[0]) != 1 || s.sent()[0][0].ID != "other" {
			t.Fatalf("an alloc that waits for its start was told of: %v", s.sent())
		}
		after(4 * time.Second)
		if len(s.sent()) != 2 || s.sent()[1][0].ID != "a" {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestNewsOfAPendingAllocIsToldWithinASecond(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(working("a", "pending", 2), false)
		after(time.Second + 10*time.Millisecond)
		if len(s.sent()) != 1 {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestOnlyNewEventsAreSent(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(working("a", "running", 3), false)
		after(time.Second)
		b.Put(working("a", "running", 5), false)
		after(2 * time.Second)
		if len(s.sent()) != 2 {
			t.Fatalf("batches: %v", s.sent())
		}
		got := s.sent()[1][0].Tasks["t"]
		if got.Before != 3 || len(got.Events) != 2 || got.Whole {
			t.Errorf("sent %+v", got)
		}
	})
}

func TestAChangeOfTheNetworkAloneIsNotUrgent(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(alloc("a", "running", ""), false)
		after(time.Second)
		moved := alloc("a", "running", "")
		moved.NetworkStatus = &model.AllocNetworkStatus{Address: "10.0.0.1"}
		b.Put(moved, false)
		after(update.Tick + update.Lead)
		if len(s.sent()) != 1 {
			t.Fatal("sent at once")
		}
		after(time.Second)
		if len(s.sent()) != 2 || s.sent()[1][0].Network == nil {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

// unopened calls f with a buffer that has not heard what servers know.
func unopened(t *testing.T, f func(b *update.Buffer, s *server)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		b := update.New(s.send, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }()
		f(b, s)
		cancel()
		<-done
	})
}

func TestAnAgentThatStartsSendsOnlyWhatServersDoNotKnow(t *testing.T) {
	unopened(t, func(b *update.Buffer, s *server) {
		digests := map[string]uint64{}
		for i := range 200 {
			a := working(fmt.Sprint("a", i), "complete", 4)
			digests[a.ID] = a.ReportDigest()
			if i%2 == 0 {
				b.Put(a, false) // before the servers told, and, below, after it
			}
		}
		b.Put(working("news", "failed", 5), false)
		digests["news"] = working("news", "running", 4).ReportDigest()
		after(time.Minute)
		if len(s.sent()) != 0 {
			t.Fatal("something was sent before it was known what the servers know")
		}
		b.Told(digests, true)
		for i := 1; i < 200; i += 2 {
			b.Put(working(fmt.Sprint("a", i), "complete", 4), false)
		}
		after(5 * time.Second)
		if len(s.sent()) != 1 || len(s.sent()[0]) != 1 || s.sent()[0][0].ID != "news" {
			t.Fatalf("batches: %v", s.sent())
		}
		if !b.EndAcknowledged("a0") || !b.EndAcknowledged("a1") || !b.EndAcknowledged("news") {
			t.Error("what servers know is not acknowledged")
		}
	})
}

func TestServersThatKnowLessThanTheyAcknowledgedAreToldWhole(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(working("a", "running", 4), false)
		after(time.Second)
		b.Told(map[string]uint64{"a": working("a", "running", 4).ReportDigest()}, true)
		after(time.Second)
		if len(s.sent()) != 1 {
			t.Fatalf("what they know was sent: %v", s.sent())
		}
		b.Told(map[string]uint64{"a": alloc("a", "unknown", "").ReportDigest()}, true) // given up, or an old snapshot
		after(update.Tick)
		if len(s.sent()) != 2 || len(s.sent()[1][0].Tasks["t"].Events) != 4 {
			t.Fatalf("batches: %v", s.sent())
		}
	})
}

func TestWhatTheServerWantsWholeIsSentWhole(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(working("a", "running", 4), false)
		after(time.Second)
		s.with(func() { s.whole = []string{"a", "b"} })
		b.Put(working("a", "complete", 5), false)
		after(update.Tick / 2)
		s.with(func() { s.whole = nil })
		if b.EndAcknowledged("a") {
			t.Error("a report that was not taken counts as acknowledged")
		}
		after(2 * update.Tick)
		if len(s.sent()) != 3 || len(s.sent()[2][0].Tasks["t"].Events) != 5 {
			t.Fatalf("batches: %v", s.sent())
		}
		if !b.EndAcknowledged("a") {
			t.Error("the end is not acknowledged")
		}
	})
}

func TestTheEndOfAnAllocIsAcknowledgedOnlyWhenTheServersHaveTakenIt(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		b.Put(alloc("a", "running", ""), false)
		after(time.Second)
		if b.EndAcknowledged("a") {
			t.Error("an alloc that runs has ended")
		}
		s.with(func() { s.onSend = func() { time.Sleep(5 * time.Second) } })
		b.Put(alloc("a", "complete", ""), false)
		after(2 * time.Second)
		if b.EndAcknowledged("a") {
			t.Error("acknowledged while it is on its way")
		}
		after(10 * time.Second)
		if !b.EndAcknowledged("a") {
			t.Error("not acknowledged")
		}
	})
}

func TestANewRegistrationEndsTheWait(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		s.with(func() { s.err = errors.New("no server") })
		b.Put(alloc("a", "running", ""), false)
		after(30 * time.Second) // tries are 5 s apart by now
		tries := len(s.sent())
		b.Retry()
		after(time.Millisecond)
		if len(s.sent()) != tries+1 {
			t.Fatal("the wait goes on")
		}
		for range 100 {
			b.Retry() // a server that keeps refusing
			after(10 * time.Millisecond)
		}
		if len(s.sent()) > tries+2 {
			t.Fatalf("%d tries in a second", len(s.sent())-tries)
		}
		after(10 * time.Second)
		s.with(func() { s.err = nil })
		b.Retry()
		after(time.Millisecond)
		last := len(s.sent())
		after(time.Minute)
		if len(s.sent()) != last {
			t.Error("sent again after it was taken")
		}
	})
}

func TestAnAllocForgottenDuringASendLeavesNothingBehind(t *testing.T) {
	for _, result := range []error{nil, errors.New("no server")} {
		run(t, func(b *update.Buffer, s *server) {
			s.with(func() {
				s.err = result
				s.onSend = func() { b.Forget("a") }
			})
			b.Put(alloc("a", "complete", ""), false)
			after(time.Minute)
			if len(s.sent()) != 1 {
				t.Errorf("result %v: sent %d times", result, len(s.sent()))
			}
			if b.EndAcknowledged("a") {
				t.Errorf("result %v: still known", result)
			}
		})
	}
}

// A node whose disk was put back knows less of its allocs than the servers. Its reports say
// what they replace, or servers would take them for late ones.
func TestAReportSaysWhichStateOfTheServersItReplaces(t *testing.T) {
	run(t, func(b *update.Buffer, s *server) {
		fresh, theirs := alloc("new", "pending", ""), working("old", "running", 6)
		b.Told(map[string]uint64{"new": fresh.ReportDigest(), "old": theirs.ReportDigest()}, true)
		b.Put(working("new", "running", 2), false)
		b.Put(working("old", "running", 3), false)
		after(2 * time.Second)
		b.Put(working("old", "running", 4), true)
		after(2 * time.Second)
		known := working("old", "running", 4)
		lost := working("old", "running", 9).ReportDigest()
		b.Told(map[string]uint64{"old": lost}, false) // servers were restored, or another agent has reported
		after(2 * time.Second)
		got := map[string][]uint64{}
		for _, batch := range s.sent() {
			for _, r := range batch {
				got[r.ID] = append(got[r.ID], r.Replaces)
			}
		}
		if want := map[string][]uint64{"new": {0}, "old": {theirs.ReportDigest(), 0, lost}}; !reflect.DeepEqual(got, want) {
			t.Errorf("replaced %v, want %v", got, want)
		}
		if b.Put(known, false); len(s.sent()) != 3 {
			t.Errorf("%d batches", len(s.sent()))
		}
	})
}
