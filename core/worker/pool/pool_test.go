// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pool_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/worker/pool"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheNumberOfWorkersFollowsWhatIsWantedAndASurplusOneFinishesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := pool.New(0)
		var taking, working atomic.Int32
		finish := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx, func() string { return "w" }, func(_, take context.Context) {
				taking.Add(1)
				working.Add(1)
				<-take.Done()
				taking.Add(-1)
				<-finish
				working.Add(-1)
			})
		}()
		want := func(takes, works int32) {
			t.Helper()
			synctest.Wait()
			if running, _ := p.Running(); taking.Load() != takes || working.Load() != works || len(running) != int(takes) {
				t.Errorf("%d take evaluations and %d work, want %d and %d; %v are shown", taking.Load(), working.Load(), takes, works, running)
			}
		}
		want(1, 1)
		if err := p.Set(0); !errdefs.IsInvalidArgument(err) {
			t.Errorf("no worker: %v", err)
		}
		for _, step := range []struct {
			count        int
			takes, works int32
		}{{3, 3, 3}, {1, 1, 3}, {1, 1, 3}} {
			if err := p.Set(step.count); err != nil {
				t.Fatal(err)
			}
			want(step.takes, step.works)
		}
		cancel()
		want(0, 3)
		close(finish)
		<-done
	})
}
