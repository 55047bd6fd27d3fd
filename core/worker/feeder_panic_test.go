// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/worker"
)

// trappedClock is one that whoever waits for a time falls over, as an evaluation does
// that has one.
type trappedClock struct{ queue.WallClock }

func (trappedClock) Now() time.Time { panic("no time of ours is like this") }

func (l *leader) feedTrapped(ids ...string) {
	tx := l.store.Begin()
	tx.SetIndex(l.store.View().Index() + 1)
	for _, id := range ids {
		e := &model.Evaluation{ID: id, Namespace: "default", JobID: id, Type: "batch", Priority: 50, Status: model.EvalStatusPending}
		if id == "bad" || id == "worse" {
			e.WaitUntil = time.Now().Add(time.Hour)
		}
		tx.UpsertEval(e)
	}
	tx.Commit()
}

func TestAChangeOnWhichTheFeederPanicsCostsNoOtherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leader{t: t, store: state.New(), broker: queue.NewBroker(queue.Config{Clock: trappedClock{}})}
		l.blocked = queue.NewBlocked(l.broker.Enqueue)
		before := panics.Caught()
		fed := func(ready int, caught uint64) {
			t.Helper()
			synctest.Wait()
			if n, c := l.broker.Stats().Ready, panics.Caught()-before; n != ready || c != caught {
				t.Errorf("%d evaluations are ready, %d panics; want %d and %d", n, c, ready, caught)
			}
		}
		l.feedTrapped("bad", "first") // what is there when it begins
		feeder := &worker.Feeder{Store: l.store, Broker: l.broker, Blocked: l.blocked, Logger: hclog.NewNullLogger()}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { feeder.Run(ctx) })
		defer running.Wait()
		defer cancel()
		fed(1, 1)
		l.feedTrapped("bad", "worse", "second") // what changes then
		fed(2, 2)
		time.Sleep(time.Hour) // of the bubble: nothing is tried again and again
		fed(2, 2)
	})
}
