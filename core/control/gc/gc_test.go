// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package gc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// build makes a state with a job, an eval of it and an alloc with the given client status.
func build(t *testing.T, jobType, clientStatus string, stop bool) *state.Store {
	t.Helper()
	store := state.New()
	err := store.Update(10, func(tx *state.Tx) error {
		tx.UpsertJob(&model.Job{Namespace: "default", ID: "j", Type: jobType, Stop: stop, SubmitTime: start.UnixNano(), TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1}}}, nil)
		tx.UpsertEval(&model.Evaluation{ID: "e", Namespace: "default", JobID: "j", Type: jobType, Status: model.EvalStatusComplete, ModifyTime: start.UnixNano()})
		tx.PlaceAlloc(&model.Allocation{ID: "a", Namespace: "default", JobID: "j", TaskGroup: "g", Name: "j.g[0]", NodeID: "n", EvalID: "e",
			DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusPending, AllocatedResources: &model.AllocatedResources{}}, start.UnixNano())
		return tx.UpdateAllocFromClient(&model.Allocation{ID: "a", ClientStatus: clientStatus, ModifyTime: start.UnixNano()})
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// collected is what a collection at a time would delete.
func collected(s *state.Store, at time.Time) (evals, allocs, jobs []string) {
	for _, c := range gc.Collect(s.View(), at, gc.DefaultThresholds()) {
		switch c := c.(type) {
		case *fsm.DeleteEvals:
			evals, allocs = append(evals, c.EvalIDs...), append(allocs, c.AllocIDs...)
		case *fsm.DeregisterJob:
			jobs = append(jobs, c.ID)
		}
	}
	return evals, allocs, jobs
}

func TestARunningJobLosesNothing(t *testing.T) {
	s := build(t, model.JobTypeService, model.AllocClientStatusRunning, false)
	evals, allocs, jobs := collected(s, start.Add(1000*time.Hour))
	if len(evals)+len(allocs)+len(jobs) != 0 {
		t.Fatalf("evals %q, allocs %q, jobs %q", evals, allocs, jobs)
	}
}

func TestADeadJobGoesWithEverythingAfterItsThreshold(t *testing.T) {
	s := build(t, model.JobTypeService, model.AllocClientStatusComplete, true)
	if _, _, jobs := collected(s, start.Add(4*time.Hour-time.Second)); len(jobs) != 0 {
		t.Fatalf("too early: %q", jobs)
	}
	evals, allocs, jobs := collected(s, start.Add(4*time.Hour))
	if !slices.Equal(evals, []string{"e"}) || !slices.Equal(allocs, []string{"a"}) || !slices.Equal(jobs, []string{"j"}) {
		t.Fatalf("evals %q, allocs %q, jobs %q", evals, allocs, jobs)
	}
}

func TestWhatABatchJobHasDoneIsKeptAsLongAsTheJob(t *testing.T) {
	s := build(t, model.JobTypeBatch, model.AllocClientStatusComplete, false)
	// Until the job itself goes, its ended alloc says that the work is done.
	if _, allocs, _ := collected(s, start.Add(3*time.Hour)); len(allocs) != 0 {
		t.Fatalf("allocs %q", allocs)
	}
}
