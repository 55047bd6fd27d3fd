// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pilot_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/autopilot/pilot"
)

func TestALeaderWhoseDiskIsFullHandsOverAndNotAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var full atomic.Bool
		var tries atomic.Int32
		readOnly := func() error {
			if full.Load() {
				return errors.New("the disk is full")
			}
			return nil
		}
		go func() {
			var tried time.Time // over all terms
			for ctx.Err() == nil {
				term, lost := context.WithCancel(ctx)
				pilot.Yield(term, &tried, readOnly, func(context.Context) error {
					if tries.Add(1) == 1 {
						return errors.New("nobody is there")
					}
					lost() // and it becomes the leader again
					return nil
				}, hclog.NewNullLogger())
			}
		}()
		for _, step := range []struct {
			full  bool
			after time.Duration
			tries int32
		}{{false, time.Minute, 0}, {true, 1500 * time.Millisecond, 1}, {true, 20 * time.Second, 1}, {true, 10 * time.Second, 2}, {true, 25 * time.Second, 2}, {false, time.Minute, 2}} {
			full.Store(step.full)
			time.Sleep(step.after) // of the test's own clock
			synctest.Wait()
			if got := tries.Load(); got != step.tries {
				t.Errorf("after %v with a full disk (%t) it has tried %d times, want %d", step.after, step.full, got, step.tries)
			}
		}
		cancel()
		synctest.Wait()
	})
}
