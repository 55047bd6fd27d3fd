// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
)

func TestAPanicAtADelayedEvaluationCostsThatOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBroker(Config{})
		b.SetEnabled(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		soon := time.Now().Add(time.Second)
		bad := &model.Evaluation{ID: "bad", JobID: "a", Type: "service", WaitUntil: soon}
		b.Enqueue(bad, &model.Evaluation{ID: "good", JobID: "b", Type: "service", WaitUntil: soon})
		b.mu.Lock()
		b.known["bad"].eval = nil // no message does so
		b.mu.Unlock()
		e, token, err := b.Dequeue(ctx)
		if err != nil || e.ID != "good" {
			t.Fatalf("%v, %v", e, err)
		}
		if err := b.Ack(e.ID, token); err != nil {
			t.Error(err)
		}
		if got := b.Stats(); got != (Stats{}) {
			t.Errorf("%+v is left", got)
		}
		b.Enqueue(bad) // as from another feed
		if e, _, err := b.Dequeue(ctx); err != nil || e.ID != "bad" {
			t.Errorf("%v, %v", e, err)
		}
		cancel()
		<-ended
	})
}

// A server leads for months: what has left the queue must leave nothing in memory.
func TestNothingIsKeptInMemoryOfWhatHasLeftTheQueue(t *testing.T) {
	b := NewBlocked(func(...*model.Evaluation) {})
	b.SetEnabled(true)
	db := model.JobKey{Namespace: "default", ID: "db"}
	b.Block(&model.Evaluation{ID: "a", JobID: "j", NodeID: "n"}, Need{On: []model.JobKey{db}, Until: time.Unix(1, 0)})
	b.Block(&model.Evaluation{ID: "b", JobID: "k"}, Need{})
	b.Forget("a")
	b.Forget("b")
	b.NextLimit()
	if n := len(b.evals) + len(b.needs) + len(b.byJob) + len(b.byNode) + len(b.awaited) + len(b.limits); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	for i := range 2 * maxSeen {
		b.Unblock(Room{Class: string(rune(i + 1))}, uint64(i))
	}
	if len(b.seen) > maxSeen {
		t.Errorf("%d classes are remembered", len(b.seen))
	}
}
