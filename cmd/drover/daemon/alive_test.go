// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPartThatDoesNotAnswerIsNamedAndAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var asked atomic.Int32
		parts := []*pulse{
			{name: "good", ask: func(context.Context) {}},
			{name: "stuck", ask: func(context.Context) { asked.Add(1); <-free }},
		}
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return check(ctx, parts)
		}
		for range 3 {
			if err := ask(); err == nil || !strings.HasSuffix(err.Error(), "no answer from stuck") {
				t.Fatal(err)
			}
		}
		if asked.Load() != 1 {
			t.Errorf("it was asked %d times", asked.Load())
		}
		close(free)
		synctest.Wait()
		if err := ask(); err != nil {
			t.Errorf("after it answers again: %v", err)
		}
	})
}
