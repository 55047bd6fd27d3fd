// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestWhoeverWaitsForAnIndexIsWokenByACommitThatChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := state.New()
		reached := make(chan error, 1)
		go func() { reached <- s.Reach(t.Context(), 7) }()
		for _, index := range []uint64{5, 7} {
			synctest.Wait()
			if len(reached) > 0 {
				t.Fatalf("it returned at index %d: %v", s.View().Index(), <-reached)
			}
			if err := s.Update(index, func(*state.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-reached; err != nil {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Reach(ended, 7); err != nil {
			t.Errorf("it waits for what is there: %v", err)
		}
		if err := s.Reach(ended, 8); !errdefs.IsUnavailable(err) {
			t.Errorf("the end of the wait is %v", err)
		}
		synctest.Wait() // the watches are dropped
		if n := s.Watchers(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}
