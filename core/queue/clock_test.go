// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/queue"
	"github.com/drover-project/drover/core/sleep"
)

// sleepyClock is the clock of a machine that has slept for a while: its timers did not notice.
type sleepyClock struct {
	queue.WallClock
	slept atomic.Int64
}

func (c *sleepyClock) Now() time.Time {
	return c.WallClock.Now().Round(0).Add(time.Duration(c.slept.Load()))
}

func TestADelayedEvaluationIsNotLateByTheTimeThatTheMachineSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		clock := &sleepyClock{}
		b := queue.NewBroker(queue.Config{Clock: clock})
		b.SetEnabled(true)
		go b.Run(ctx)
		e := eval("later", "job", 50, 1)
		e.WaitUntil = clock.Now().Add(time.Hour)
		b.Enqueue(e)
		time.Sleep(time.Minute)
		nothing(t, b, ctx)
		clock.slept.Store(int64(time.Hour))
		time.Sleep(sleep.Longest)
		synctest.Wait()
		took, cancelTook := context.WithTimeout(ctx, time.Millisecond)
		defer cancelTook()
		if got, _, err := b.Dequeue(took); err != nil || got.ID != "later" {
			t.Errorf("%v, %v", got, err)
		}
	})
}
