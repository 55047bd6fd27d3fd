// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/core/worker"
)

// Any entry raises the index, also one that changes nothing that the scheduler reads.
func TestAWorkerGoesOnWhenAnyEntryReachesItsIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		ended := make(chan error, 1)
		go func() { ended <- worker.WaitForIndex(store)(t.Context(), 7) }()
		synctest.Wait()
		tx := store.Begin()
		tx.SetIndex(7)
		tx.UpsertNamespace(&model.Namespace{Name: "n"})
		tx.Commit()
		synctest.Wait()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the worker still waits")
		}
	})
}
