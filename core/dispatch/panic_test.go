// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
)

func TestAChangeOnWhichTheServerPanicsIsToldToNobodyAndTheNextOneIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		s := start(t, ctx)
		s.register(t, idN1)
		synctest.Wait() // the feed has begun: nothing is told as a whole again
		pushed, _ := s.attach(ctx, idN1, nil)
		<-pushed // everything
		before := panics.Caught()
		tx := s.store.Begin()
		tx.SetIndex(s.store.View().Index() + 1)
		job := s.store.View().JobByID("default", "web")
		tx.PlaceAlloc(&model.Allocation{
			ID: "bad", Namespace: "default", JobID: "web", JobVersion: job.Version, TaskGroup: "g", NodeID: idN1,
			TaskStates: map[string]*model.TaskState{"t": nil}, AllocModifyIndex: s.store.View().Index() + 1,
		}, 1)
		tx.Commit()
		s.log.index++
		synctest.Wait()
		if n := panics.Caught() - before; n != 1 {
			t.Fatalf("%d panics", n)
		}
		s.place(t, idN1, "good")
		a := <-pushed
		if len(a.Set) != 1 || a.Set[0].AllocID != "good" {
			t.Errorf("pushed %+v", a)
		}
	})
}
