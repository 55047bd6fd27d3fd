// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/sleep"
)

func TestASleepEndsAtItsTimeOrWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := sleep.For(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %s: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun = time.Now()
		if err := sleep.For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Minute {
			t.Errorf("slept %s: %v", time.Since(begun), err)
		}
		if err := sleep.For(ctx, -1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a sleep of no length in a context that has ended: %v", err)
		}
	})
}
