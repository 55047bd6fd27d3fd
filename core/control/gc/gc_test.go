// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package gc_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// build makes a state with a job, an eval of it and an alloc with the given client status.
func build(t *testing.T, jobType, clientStatus string, stop bool) *state.Store {
	t.Helper()
	store := state.New()
	invariants.AtEnd(t, store)
	err := store.Update(10, func(tx *state.Tx) error {
		tx.UpsertJob(&model.Job{Namespace: "default", ID: "j", Type: jobType, Stop: stop, SubmitTime: start.UnixNano(), TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1}}}, nil)
		tx.UpsertEval(&model.Evaluation{ID: "e", Namespace: "default", JobID: "j", Type: jobType, Status: model.EvalStatusComplete, ModifyTime: start.UnixNano()})
		tx.PlaceAlloc(&model.Allocation{ID: "a", Namespace: "default", JobID: "j", TaskGroup: "g", Name: "j.g[0]", NodeID: "n", EvalID: "e",
			DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusPending, AllocatedResources: &model.AllocatedResources{}}, start.UnixNano())
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: "a", ClientStatus: clientStatus}, start.UnixNano())
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

func TestWhatWaitsForRoomForItsReplacementIsKept(t *testing.T) {
	s := build(t, model.JobTypeService, model.AllocClientStatusRunning, false)
	waiting := &model.Evaluation{ID: "w", Namespace: "default", JobID: "j", Type: model.JobTypeService, Status: model.EvalStatusBlocked, ModifyTime: start.UnixNano()}
	for _, c := range []struct {
		status, description string
		kept                bool
	}{
		{model.EvalStatusBlocked, reconcile.DescLost, true},
		{model.EvalStatusBlocked, reconcile.DescNotNeeded, false},
		{model.EvalStatusComplete, reconcile.DescLost, false},
	} {
		err := s.Update(s.View().Index()+1, func(tx *state.Tx) error {
			e := *waiting
			e.Status = c.status
			tx.UpsertEval(&e)
			return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: "a", Description: c.description, ClientStatus: model.AllocClientStatusLost}, "e", start.UnixNano())
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, allocs, _ := collected(s, start.Add(1000*time.Hour)); (len(allocs) == 0) != c.kept {
			t.Errorf("%s, evaluation %s: collected %q", c.description, c.status, allocs)
		}
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
	if _, allocs, jobs := collected(s, start.Add(5*time.Hour)); !slices.Equal(allocs, []string{"a"}) || !slices.Equal(jobs, []string{"j"}) {
		t.Fatalf("a batch job that came to its end is kept: allocs %q, jobs %q", allocs, jobs)
	}
}

func TestAServiceThatFailedIsKeptUntilSomebodyStopsIt(t *testing.T) {
	s := build(t, model.JobTypeService, model.AllocClientStatusFailed, false)
	if got := s.View().JobByID("default", "j").Status; got != model.JobStatusDead {
		t.Fatalf("the job is %s", got)
	}
	if _, _, jobs := collected(s, start.Add(1000*time.Hour)); len(jobs) != 0 {
		t.Fatalf("jobs %q", jobs)
	}
}

// edit changes the state once more.
func edit(t *testing.T, s *state.Store, f func(*state.Tx) error) {
	t.Helper()
	if err := s.Update(s.View().Index()+1, f); err != nil {
		t.Fatal(err)
	}
}

func TestParentsAreCollectedOnlyOnceTheyAreStopped(t *testing.T) {
	for name, prepare := range map[string]func(*model.Job){
		"periodic":      func(j *model.Job) { j.Periodic = &model.PeriodicConfig{Enabled: true, Specs: []string{"@daily"}} },
		"disabled":      func(j *model.Job) { j.Periodic = &model.PeriodicConfig{Specs: []string{"@daily"}} },
		"parameterized": func(j *model.Job) { j.ParameterizedJob = &model.ParameterizedJobConfig{} },
	} {
		s := state.New()
		invariants.AtEnd(t, s)
		job := &model.Job{Namespace: "default", ID: "p", Type: model.JobTypeBatch, SubmitTime: start.UnixNano(), TaskGroups: []*model.TaskGroup{{Name: "g"}}}
		prepare(job)
		edit(t, s, func(tx *state.Tx) error { tx.UpsertJob(job, nil); return nil })
		if _, _, jobs := collected(s, start.Add(1000*time.Hour)); len(jobs) != 0 {
			t.Errorf("%s: collected %q", name, jobs)
		}
		edit(t, s, func(tx *state.Tx) error { return tx.StopJob("default", "p", start.Add(time.Hour).UnixNano()) })
		if _, _, jobs := collected(s, start.Add(5*time.Hour-time.Second)); len(jobs) != 0 {
			t.Errorf("%s: collected %q less than the threshold after its stop", name, jobs)
		}
		if _, _, jobs := collected(s, start.Add(5*time.Hour)); !slices.Equal(jobs, []string{"p"}) {
			t.Errorf("%s, stopped: collected %q", name, jobs)
		}
	}
}

func TestAJobWithATaggedVersionIsKept(t *testing.T) {
	s := build(t, model.JobTypeBatch, model.AllocClientStatusComplete, false)
	edit(t, s, func(tx *state.Tx) error {
		return tx.SetJobVersionTag("default", "j", 0, &model.JobVersionTag{Name: "golden"})
	})
	if _, _, jobs := collected(s, start.Add(1000*time.Hour)); len(jobs) != 0 {
		t.Fatalf("jobs %q", jobs)
	}
}

func TestAnAllocWhoseEvalIsGoneGoesWithItsJob(t *testing.T) {
	s := build(t, model.JobTypeBatch, model.AllocClientStatusComplete, false)
	edit(t, s, func(tx *state.Tx) error { tx.DeleteEval("e"); return nil })
	if _, allocs, _ := collected(s, start.Add(5*time.Hour)); !slices.Equal(allocs, []string{"a"}) {
		t.Fatalf("allocs %q", allocs)
	}
}

func TestMuchIsCollectedInBoundedSteps(t *testing.T) {
	const n = 50_000
	f := fsm.New(state.New(), hclog.NewNullLogger())
	edit(t, f.Store(), func(tx *state.Tx) error {
		for i := range n {
			tx.UpsertEval(&model.Evaluation{ID: fmt.Sprint("e", i), Namespace: "default", JobID: "j", Status: model.EvalStatusComplete, ModifyTime: start.UnixNano()})
		}
		return nil
	})
	now := start.Add(48 * time.Hour)
	steps := 0
	for ; ; steps++ {
		d, err := control.Decide(gc.Controller{Thresholds: gc.DefaultThresholds()}, f.Store().View(), now, nil, "state")
		if err != nil {
			t.Fatal(err)
		}
		entry, err := fsm.Encode(&fsm.Batch{Commands: d.Commands})
		if err != nil {
			t.Fatal(err)
		}
		if len(entry) > 1<<20 {
			t.Fatalf("an entry of %d bytes", len(entry))
		}
		if answer := f.ApplyBatch([]fsm.Entry{{Index: f.Store().View().Index() + 1, Data: entry}})[0]; answer != nil {
			t.Fatal(answer)
		}
		if d.Wake.After(now) {
			break
		}
	}
	if left := f.Store().View().Sizes()[state.TableEvals]; left != 0 || steps == 0 {
		t.Fatalf("%d evals are left after %d steps", left, steps)
	}
}

func TestTheIntervalIsWhatIsConfigured(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Minute: time.Minute} {
		d, err := control.Decide(gc.Controller{Thresholds: gc.Thresholds{Interval: given}}, state.New().View(), start, nil, "state")
		if err != nil || d.Wake != start.Add(want) {
			t.Errorf("an interval of %s wakes at %s (%v)", given, d.Wake, err)
		}
	}
}

func TestADriversSchemaGoesSomeTimeAfterItsLastNode(t *testing.T) {
	s := state.New()
	edit(t, s, func(tx *state.Tx) error {
		tx.RegisterNode(&model.Node{ID: "n", Status: model.NodeStatusReady, Drivers: map[string]*model.DriverInfo{"docker": {SchemaHash: "h"}}})
		return tx.AddDriverSchema(&model.DriverSchema{Hash: "h", Driver: "docker", Body: []byte("{}")})
	})
	f := fsm.New(s, hclog.NewNullLogger())
	invariants.AtEnd(t, s)
	pass := func(at time.Time, th gc.Thresholds) {
		t.Helper()
		for _, c := range gc.Collect(s.View(), at, th) {
			data, err := fsm.Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			if answer := f.ApplyBatch([]fsm.Entry{{Index: s.View().Index() + 1, Data: data}})[0]; answer != nil {
				t.Fatal(answer)
			}
		}
	}
	known := func() bool { return s.View().DriverSchemaByHash("h") != nil }
	keep := gc.DefaultThresholds()
	pass(start.Add(1000*time.Hour), keep)
	if pass(start.Add(1000*time.Hour), gc.Thresholds{}); !known() || s.View().DriverSchemaByHash("h").UnusedSince != 0 {
		t.Fatal("the schema of a node was collected")
	}
	edit(t, s, func(tx *state.Tx) error { return tx.DeleteNode("n") })
	pass(start, keep)
	if pass(start.Add(72*time.Hour-time.Second), keep); !known() {
		t.Fatal("a schema went before its time")
	}
	if pass(start.Add(72*time.Hour), keep); known() {
		t.Fatal("a schema stays for ever")
	}
	edit(t, s, func(tx *state.Tx) error {
		return tx.AddDriverSchema(&model.DriverSchema{Hash: "h", Driver: "docker", Body: []byte("{}")})
	})
	if pass(start, gc.Thresholds{}); known() {
		t.Fatal("an operator's collection spares a schema that no node has")
	}
}
