// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func eval(id, job string, priority int, index uint64) *model.Evaluation {
	return &model.Evaluation{ID: id, Namespace: "default", JobID: job, Type: "service", Priority: priority, Status: "pending", CreateIndex: index}
}

// started returns an enabled broker whose timer loop runs until the test ends, in a bubble.
func started(t *testing.T) (*queue.Broker, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	b := queue.NewBroker(queue.Config{})
	b.SetEnabled(true)
	go b.Run(ctx)
	return b, ctx
}

func get(t *testing.T, b *queue.Broker, ctx context.Context, want string) string {
	t.Helper()
	return taken(t, want, func() (*model.Evaluation, string, error) { return b.Dequeue(ctx) })
}

func taken(t *testing.T, want string, take func() (*model.Evaluation, string, error)) string {
	t.Helper()
	e, token, err := take()
	if err != nil || e.ID != want {
		t.Fatalf("dequeued %v, %v; want %s", e, err, want)
	}
	return token
}

func nothing(t *testing.T, b *queue.Broker, ctx context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if e, _, err := b.Dequeue(ctx); err == nil {
		t.Fatalf("dequeued %s, want nothing", e.ID)
	}
}

func bubble(t *testing.T, f func(t *testing.T, b *queue.Broker, ctx context.Context)) {
	synctest.Test(t, func(t *testing.T) {
		b, ctx := started(t)
		f(t, b, ctx)
	})
}

func TestHighestPriorityFirstThenFirstCome(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j1", 50, 1), eval("b", "j2", 50, 2), eval("c", "j3", 80, 3))
		get(t, b, ctx, "c")
		get(t, b, ctx, "a")
		get(t, b, ctx, "b")
	})
}

func TestOneEvaluationOfAJobAtATimeAndTheNewestNext(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1), eval("b", "j", 50, 2), eval("c", "j", 50, 3))
		token := get(t, b, ctx, "a")
		nothing(t, b, ctx)
		if err := b.Ack("a", token); err != nil {
			t.Fatal(err)
		}
		get(t, b, ctx, "c")
		if s := b.Cancelled(); len(s) != 1 || s[0].ID != "b" {
			t.Fatalf("superseded %v, want b", s)
		}
	})
}

func TestDelayedEvaluationWaitsForItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		e := eval("a", "j", 50, 1)
		start := time.Now()
		e.WaitUntil = start.Add(time.Hour)
		b.Enqueue(e)
		nothing(t, b, ctx)
		get(t, b, ctx, "a")
		if d := time.Since(start); d != time.Hour {
			t.Fatalf("came after %s", d)
		}
	})
}

func TestALostWorkerLosesItsEvaluation(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1))
		old := get(t, b, ctx, "a")
		token := get(t, b, ctx, "a") // after the nack timeout and the retry delay
		if err := b.Ack("a", old); err == nil {
			t.Fatal("the old token still acknowledges")
		}
		if err := b.Ack("a", token); err != nil {
			t.Fatal(err)
		}
		if s := b.Stats(); s != (queue.Stats{}) {
			t.Fatalf("left behind: %+v", s)
		}
	})
}

func TestAnEvaluationThatFailsAgainAndAgainLeavesTheLane(t *testing.T) {
	bubble(t, func(t *testing.T, b *queue.Broker, ctx context.Context) {
		b.Enqueue(eval("a", "j", 50, 1))
		for range 3 {
			if err := b.Nack("a", get(t, b, ctx, "a")); err != nil {
				t.Fatal(err)
			}
		}
		taken(t, "a", func() (*model.Evaluation, string, error) { return b.DequeueFailed(ctx) })
	})
}

func blockedEval(id, job string, snapshot uint64, classes map[string]bool) *model.Evaluation {
	e := eval(id, job, 50, snapshot)
	e.Status, e.SnapshotIndex, e.ClassEligibility = "blocked", snapshot, classes
	return e
}

func TestRoomWakesOnlyWhatItMayHelp(t *testing.T) {
	var out []string
	b := queue.NewBlocked(func(es ...*model.Evaluation) {
		for _, e := range es {
			out = append(out, e.ID)
		}
	})
	b.SetEnabled(true)
	b.Block(blockedEval("a", "j1", 10, map[string]bool{"c1": true}), queue.Need{})
	b.Block(blockedEval("b", "j2", 10, map[string]bool{"c1": false, "c2": true}), queue.Need{})
	b.Unblock(queue.Room{Class: "c1"}, 11)
	if len(out) != 1 || out[0] != "a" || b.Len() != 1 {
		t.Fatalf("woke %v, %d left", out, b.Len())
	}
	b.Unblock(queue.Room{Class: "never seen before"}, 12)
	if len(out) != 2 || out[1] != "b" {
		t.Fatalf("woke %v", out)
	}
}

func TestRoomThatCameBeforeTheEvaluationArrivedIsNotMissed(t *testing.T) {
	var out []string
	b := queue.NewBlocked(func(es ...*model.Evaluation) {
		for _, e := range es {
			out = append(out, e.ID)
		}
	})
	b.SetEnabled(true)
	b.Unblock(queue.Room{Class: "c1"}, 20)
	b.Block(blockedEval("old", "j1", 15, map[string]bool{"c1": true}), queue.Need{})
	b.Block(blockedEval("new", "j2", 25, map[string]bool{"c1": true}), queue.Need{})
	if len(out) != 1 || out[0] != "old" || b.Len() != 1 {
		t.Fatalf("woke %v, %d left", out, b.Len())
	}
}

func TestAJobHasOneBlockedEvaluation(t *testing.T) {
	b := queue.NewBlocked(func(...*model.Evaluation) {})
	b.SetEnabled(true)
	b.Block(blockedEval("a", "j", 1, map[string]bool{"c": true}), queue.Need{})
	b.Block(blockedEval("b", "j", 2, map[string]bool{"c": true}), queue.Need{})
	if s := b.Cancelled(); len(s) != 1 || s[0].ID != "a" || b.Len() != 1 {
		t.Fatalf("superseded %v, %d left", s, b.Len())
	}
}
