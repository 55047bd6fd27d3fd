// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drain_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// moving returns a world in which a node drains whose alloc "a0" has ended, and its data
// goes to "b0" on another node.
func moving(t *testing.T, disk *model.EphemeralDisk, s model.DrainStrategy) *world {
	w := newWorld(t)
	w.movingJob(disk, 1)
	w.place("a0", "web", 0, "n1", "")
	w.drain("n1", s)
	w.decide()
	w.placePending("b0", "web", "n2", "a0")
	w.report("a0", model.AllocClientStatusComplete)
	w.decide()
	return w
}

// movingJob registers a job whose group has that disk.
func (w *world) movingJob(disk *model.EphemeralDisk, count int) {
	w.apply(&fsm.UpsertJob{Job: &model.Job{
		Region: "global", Namespace: "default", ID: "web", Name: "web", Type: model.JobTypeService, Priority: 60, NodePool: "default", Datacenters: []string{"*"},
		TaskGroups: []*model.TaskGroup{{Name: "g", Count: count, EphemeralDisk: disk, Migrate: &model.MigrateStrategy{MaxParallel: 1}, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}}}},
	}})
}

// placePending places an alloc that has not started.
func (w *world) placePending(id, job, node, previous string) {
	at := w.store.View().Index()
	w.apply(&fsm.ApplyPlan{UpdatedAt: w.now.UnixNano(), VerifiedIndex: at, Plan: &model.Plan{
		Namespace: "default", JobID: job, SnapshotIndex: at, Place: []*model.Allocation{{
			ID: id, Name: model.AllocName(job, "g", 0), TaskGroup: "g", NodeID: node, PreviousAllocation: previous,
			AllocatedResources: &model.AllocatedResources{},
		}},
	}})
}

var moves = &model.EphemeralDisk{Sticky: true, Migrate: true, SizeMB: 10}

func TestADrainIsCompleteOnlyWhenTheDataHasLeftToo(t *testing.T) {
	for _, status := range []string{model.AllocClientStatusRunning, model.AllocClientStatusFailed} {
		w := moving(t, moves, model.DrainStrategy{Deadline: time.Hour})
		if !w.draining("n1") {
			t.Fatal("the drain is complete while the successor has not got the data")
		}
		w.report("b0", status)
		w.after(state.Change{Table: state.TableAllocs, New: w.store.View().AllocByID("b0")})
		if w.draining("n1") {
			t.Errorf("the successor is %s and the node drains for ever", status)
		}
	}
}

func TestADrainAwaitsRoomForWhatIsToGetTheData(t *testing.T) {
	start := func() *world {
		w := newWorld(t)
		w.movingJob(moves, 1)
		w.place("a0", "web", 0, "n1", "")
		w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
		w.decide()
		w.report("a0", model.AllocClientStatusComplete)
		w.decide()
		if !w.draining("n1") {
			t.Fatal("the drain is complete though nobody has the data yet")
		}
		return w
	}
	job := func(w *world) *model.Job { return w.store.View().JobByID("default", "web") }
	for what, then := range map[string]func(*world) state.Change{
		"the successor is placed and has the data": func(w *world) state.Change {
			w.placePending("b0", "web", "n2", "a0")
			w.report("b0", model.AllocClientStatusRunning)
			return state.Change{Table: state.TableAllocs, New: w.store.View().AllocByID("b0")}
		},
		"the job is to have no alloc any more": func(w *world) state.Change {
			w.movingJob(moves, 0)
			return state.Change{Table: state.TableJobs, New: job(w)}
		},
		"the data is not to move any more": func(w *world) state.Change {
			before := job(w)
			w.movingJob(&model.EphemeralDisk{Sticky: true, SizeMB: 10}, 1)
			return state.Change{Table: state.TableJobs, Old: before, New: job(w)}
		},
	} {
		w := start()
		if w.after(then(w)); w.draining("n1") {
			t.Errorf("%s, and the node drains for ever", what)
		}
	}
}

func TestADrainDoesNotAwaitDataThatStays(t *testing.T) {
	for _, disk := range []*model.EphemeralDisk{nil, {Sticky: true}, {Migrate: true}} {
		if w := moving(t, disk, model.DrainStrategy{Deadline: time.Hour}); w.draining("n1") {
			t.Errorf("%+v: the drain awaits data that does not move", disk)
		}
	}
}

func TestADrainEndsAtItsDeadlineAlsoIfDataHasNotLeft(t *testing.T) {
	w := moving(t, moves, model.DrainStrategy{Deadline: time.Hour})
	w.now = w.now.Add(time.Hour)
	if wake := w.decide(); w.draining("n1") {
		t.Errorf("the node drains after its deadline, until %v", wake)
	}
}
