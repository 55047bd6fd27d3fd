// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheContainerOfAnEndedTaskIsKeptForThoseWhoFollowItsOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTask("t", nil, handleState{})
		one, two := x.followed(), x.followed()
		drained := make(chan time.Duration, 2)
		for range 2 { // an agent may ask twice
			go func() {
				begun := time.Now()
				x.drainFollowers(t.Context())
				drained <- time.Since(begun)
			}()
		}
		one()
		synctest.Wait()
		if len(drained) > 0 {
			t.Fatal("it does not wait for the second one")
		}
		time.Sleep(time.Second)
		two()
		for range 2 {
			if took := <-drained; took != time.Second {
				t.Errorf("it waits for %s", took)
			}
		}
		hung := x.followed()
		begun := time.Now()
		x.drainFollowers(t.Context())
		if took := time.Since(begun); took != followGrace {
			t.Errorf("it waits for %s for one that takes nothing", took)
		}
		hung()
		x.drainFollowers(t.Context())
	})
}
