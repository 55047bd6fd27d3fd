// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package breaker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/breaker"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestOneOfAGroupThatDoesNotAnswerLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := breaker.NewGroup(func(key string) string { return "network " + key }, breaker.Config{Failures: 3, Pause: 10 * time.Second}, nil)
		bad, good := &thing{err: errdefs.DeadlineExceededf("no answer")}, &thing{}
		for range 5 {
			if err := g.Of("bad").Do(t.Context(), bad.call); err == nil {
				t.Fatal("no error")
			}
			if err := g.Of("good").Do(t.Context(), good.call); err != nil {
				t.Fatal(err)
			}
		}
		if bad.calls != 3 || good.calls != 5 {
			t.Fatalf("%d calls of the one, %d of the other", bad.calls, good.calls)
		}
		time.Sleep(time.Second)
		other := &thing{err: errdefs.Unavailablef("away")}
		for range 3 {
			_ = g.Of("other").Do(t.Context(), other.call)
		}
		if since, why := g.Open(); time.Since(since) != time.Second || !errdefs.IsDeadlineExceeded(why) {
			t.Fatalf("open since %s: %v", since, why)
		}
		time.Sleep(10 * time.Second)
		bad.err, other.err = nil, nil
		for key, x := range map[string]*thing{"bad": bad, "other": other} {
			if err := g.Of(key).Do(t.Context(), x.call); err != nil {
				t.Fatal(err)
			}
		}
		if since, why := g.Open(); !since.IsZero() || why != nil {
			t.Fatalf("open since %s: %v", since, why)
		}
	})
}
