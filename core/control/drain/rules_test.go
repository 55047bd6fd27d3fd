// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/drain"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// finishing registers a job of type sysbatch and returns a world in which its alloc is on
// the draining node n1.
func finishing(t *testing.T, s model.DrainStrategy) *world {
	w := newWorld(t)
	w.job("sweep", model.JobTypeSysBatch, 1, 1)
	w.place("a0", "sweep", 0, "n1", "")
	w.drain("n1", s)
	w.decide()
	w.want("")
	return w
}

func TestASysbatchAllocMayFinishAndIsNotAwaitedIfSystemJobsStay(t *testing.T) {
	if w := finishing(t, model.DrainStrategy{IgnoreSystemJobs: true}); w.draining("n1") {
		t.Error("the drain awaits an alloc that stays")
	}
	w := finishing(t, model.DrainStrategy{})
	if !w.draining("n1") {
		t.Fatal("the drain is complete before the alloc has finished")
	}
	w.report("a0", model.AllocClientStatusComplete)
	if w.decide(); w.draining("n1") {
		t.Error("the drain awaits an alloc that has finished")
	}
}

func TestTheEventOfACompleteDrainSaysWhetherTheDeadlineEndedIt(t *testing.T) {
	for status, late := range map[string]bool{model.AllocClientStatusComplete: false, model.AllocClientStatusRunning: true} {
		w := finishing(t, model.DrainStrategy{Deadline: time.Minute})
		w.report("a0", status)
		if late {
			w.now = w.now.Add(time.Minute)
		}
		w.decide()
		n := w.store.View().NodeByID("n1")
		if e := n.Events[len(n.Events)-1]; n.DrainStrategy != nil || (e.Details["deadline_reached"] == "true") != late {
			t.Errorf("late: %v, the event is %+v", late, e)
		}
	}
}

// pair returns a world in which one of two allocs of a group, "a0", has left n1.
func pair(t *testing.T, s model.DrainStrategy) *world {
	w := newWorld(t)
	w.pair(s)
	w.report("a0", model.AllocClientStatusComplete)
	return w
}

// pair makes n1 drain and "a0" the first of two allocs of a group to leave it.
func (w *world) pair(s model.DrainStrategy) {
	w.job("web", model.JobTypeService, 2, 1)
	w.place("a0", "web", 0, "n1", "")
	w.place("a1", "web", 1, "n1", "")
	w.drain("n1", s)
	w.decide()
	w.want("a0")
}

// health reports the verdict of a node on an alloc that runs.
func (w *world) health(id string, healthy bool) {
	w.apply(&fsm.UpdateAllocsFromClient{At: w.now.UnixNano(), Reports: []*model.AllocReport{{
		ID: id, ClientStatus: model.AllocClientStatusRunning, Health: &model.HealthReport{Healthy: healthy},
	}}})
}

func TestAReplacementCountsOnceItIsHealthy(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*world)
		wake time.Duration // 0: not before something changes
		now  bool
	}{
		"pending":              {then: func(*world) {}},
		"failed":               {then: func(w *world) { w.report("b0", model.AllocClientStatusFailed) }},
		"reported healthy":     {then: func(w *world) { w.report("b0", "running"); w.health("b0", true) }, now: true},
		"reported unhealthy":   {then: func(w *world) { w.report("b0", "running"); w.health("b0", false) }},
		"started a while ago":  {then: func(w *world) { w.report("b0", "running"); w.now = w.now.Add(4 * time.Second) }, wake: 6 * time.Second},
		"started later":        {then: func(w *world) { w.now = w.now.Add(4 * time.Second); w.report("b0", "running") }, wake: 10 * time.Second},
		"beside an older one":  {then: func(w *world) { w.twin(4*time.Second, "b0", "c0") }, wake: 6 * time.Second},
		"beside a younger one": {then: func(w *world) { w.twin(4*time.Second, "c0", "b0") }, wake: 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := pair(t, model.DrainStrategy{})
			w.placePending("b0", "web", "n2", "a0")
			w.placePending("c0", "web", "n3", "")
			c.then(w)
			wake := w.decide()
			if want := w.now.Add(c.wake); c.wake == 0 && !wake.IsZero() || c.wake > 0 && !wake.Equal(want) {
				t.Errorf("the controller wakes at %v, want %v", wake, want)
			}
			if c.now {
				w.want("a0 a1")
			} else {
				w.want("a0")
			}
		})
	}
}

// twin makes two allocs of one name run, the second one some time after the first.
func (w *world) twin(apart time.Duration, first, second string) {
	w.report(first, model.AllocClientStatusRunning)
	w.now = w.now.Add(apart)
	w.report(second, model.AllocClientStatusRunning)
}

func TestADrainIsLookedAtAtItsDeadlineThoughAReplacementIsHealthyLater(t *testing.T) {
	w := pair(t, model.DrainStrategy{Deadline: 5 * time.Second})
	w.place("b0", "web", 0, "n2", "a0")
	if wake := w.decide(); !wake.Equal(w.now.Add(5 * time.Second)) {
		t.Errorf("the controller wakes at %v", wake)
	}
}

// Nothing takes the place of an alloc of a job that was stopped, so nobody waits for it.
func TestAnAllocOfAStoppedJobHoldsNoRoom(t *testing.T) {
	w := pair(t, model.DrainStrategy{})
	w.apply(&fsm.DeregisterJob{Namespace: "default", ID: "web"})
	w.decide()
	w.want("a0 a1")
}

func TestAnAllocThatIsStoppedAlreadyTakesNoRoom(t *testing.T) {
	w := newWorld(t)
	w.job("web", model.JobTypeService, 2, 1)
	w.place("a0", "web", 0, "n1", "")
	w.place("a1", "web", 1, "n1", "")
	w.stop("a0")
	w.drain("n1", model.DrainStrategy{})
	w.decide()
	w.want("a1")
}

// Two allocs may have one name: the room is free when both have ended.
func TestRoomIsHeldWhileOneOfTheLeavingAllocsOfANameRuns(t *testing.T) {
	for _, ended := range []string{"a0", "b0"} {
		w := newWorld(t)
		w.job("web", model.JobTypeService, 2, 1)
		w.place("a0", "web", 1, "n1", "")
		w.place("b0", "web", 1, "n1", "")
		w.place("a1", "web", 0, "n1", "")
		yes := true
		move := model.DesiredTransition{Migrate: &yes}
		w.apply(&fsm.UpdateDesiredTransitions{Transitions: map[string]model.DesiredTransition{"a0": move, "b0": move}})
		w.job("web", model.JobTypeService, 1, 1) // nothing takes the place of the two
		w.drain("n1", model.DrainStrategy{})
		w.report(ended, model.AllocClientStatusComplete)
		w.decide()
		w.want("a0 b0")
	}
}

func TestAllocsOfAPurgedJobLeaveWithAnEvaluationOfIt(t *testing.T) {
	w := newWorld(t)
	w.job("web", model.JobTypeBatch, 1, 1)
	w.place("a0", "web", 0, "n1", "")
	w.apply(&fsm.DeregisterJob{Namespace: "default", ID: "web", Purge: true})
	w.drain("n1", model.DrainStrategy{Deadline: -1})
	w.decide()
	w.want("a0")
	evals := w.store.View().EvalsByJob("default", "web")
	if len(evals) != 1 || evals[0].TriggeredBy != model.EvalTriggerNodeDrain {
		t.Errorf("evaluations: %+v", evals)
	}
}

// Each job gets one evaluation, in an order that every server would choose; an alloc that
// leaves already, and one that is stopped, are not asked again.
func TestAtTheDeadlineOnlyAllocsThatAreNotLeavingAreAsked(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"z", "b", "a", "ends"} {
		w.job(id, model.JobTypeBatch, 1, 1)
		w.place("a-"+id, id, 0, "n1", "")
	}
	w.pair(model.DrainStrategy{Deadline: time.Minute})
	w.stop("a-ends")
	w.now = w.now.Add(time.Minute)
	d, err := control.Decide(drain.Controller{}, w.store.View(), w.now, w.newID, "node/n1")
	if err != nil || len(d.Commands) != 2 {
		t.Fatalf("%+v, %v", d.Commands, err)
	}
	asked := d.Commands[0].(*fsm.UpdateDesiredTransitions)
	var jobs []string
	for _, e := range asked.Evals {
		jobs = append(jobs, e.JobID)
	}
	if want := []string{"a", "b", "web", "z"}; !slices.Equal(jobs, want) {
		t.Errorf("evaluations of %v, want %v", jobs, want)
	}
	if _, again := asked.Transitions["a0"]; again || len(asked.Transitions) != 4 {
		t.Errorf("asked: %v", asked.Transitions)
	}
}

func TestADecisionWithNothingToDoHasNoCommands(t *testing.T) {
	w := pair(t, model.DrainStrategy{})
	d, err := control.Decide(drain.Controller{}, w.store.View(), w.now, w.newID, "node/n1")
	if err != nil || len(d.Commands) != 0 {
		t.Errorf("%+v, %v", d.Commands, err)
	}
}

func TestOnlyChangesThatMayMoveADrainAreLookedAt(t *testing.T) {
	w := pair(t, model.DrainStrategy{})
	w.place("b0", "web", 0, "n2", "a0")
	v := w.store.View()
	for name, c := range map[string]struct {
		change state.Change
		want   []string
	}{
		"a node that drains":       {state.Change{Table: state.TableNodes, New: v.NodeByID("n1")}, []string{"node/n1"}},
		"a node that does not":     {state.Change{Table: state.TableNodes, New: v.NodeByID("n2")}, nil},
		"an alloc":                 {state.Change{Table: state.TableAllocs, New: v.AllocByID("a0")}, []string{"node/n1"}},
		"a replacement":            {state.Change{Table: state.TableAllocs, New: v.AllocByID("b0")}, []string{"node/n2", "job/default/web"}},
		"a job without data":       {state.Change{Table: state.TableJobs, New: v.JobByID("default", "web")}, nil},
		"an alloc that is removed": {state.Change{Table: state.TableAllocs, Old: v.AllocByID("a0")}, nil},
	} {
		if got := (drain.Controller{}).Keys(c.change); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The data of an alloc that has ended on n1 is awaited only while somebody is to get it.
func TestADrainDoesNotAwaitDataThatNobodyIsToGet(t *testing.T) {
	for name, then := range map[string]func(*world){
		"the job was stopped": func(w *world) { w.apply(&fsm.DeregisterJob{Namespace: "default", ID: "web"}) },
		"the job was purged":  func(w *world) { w.apply(&fsm.DeregisterJob{Namespace: "default", ID: "web", Purge: true}) },
		"the job came anew": func(w *world) {
			w.apply(&fsm.DeregisterJob{Namespace: "default", ID: "web", Purge: true})
			w.movingJob(moves, 1)
		},
		"another alloc has its place": func(w *world) { w.place("b0", "web", 0, "n2", "") },
		"its successor was stopped": func(w *world) {
			w.placePending("b0", "web", "n2", "a0")
			w.stop("b0")
		},
		"its successor was collected": func(w *world) {
			w.placePending("b0", "web", "n2", "a0")
			w.report("b0", model.AllocClientStatusComplete)
			w.apply(&fsm.DeleteEvals{AllocIDs: []string{"b0"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.movingJob(moves, 1)
			w.place("a0", "web", 0, "n1", "")
			w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
			w.decide()
			w.want("a0")
			w.report("a0", model.AllocClientStatusComplete)
			then(w)
			if w.decide(); w.draining("n1") {
				t.Error("the node drains for ever")
			}
		})
	}
}

// stop stops an alloc, as a plan does.
func (w *world) stop(id string) {
	at := w.store.View().Index()
	a := w.store.View().AllocByID(id)
	w.apply(&fsm.ApplyPlan{UpdatedAt: w.now.UnixNano(), VerifiedIndex: at, Plan: &model.Plan{
		Namespace: a.Namespace, JobID: a.JobID, SnapshotIndex: at, Change: []model.AllocChange{{AllocID: id, Kind: model.AllocStop}},
	}})
}

// What ended before the drain, or by itself, has no successor, though its job is short.
func TestADrainDoesNotAwaitTheDataOfAnAllocThatDidNotMigrate(t *testing.T) {
	w := newWorld(t)
	w.movingJob(moves, 1)
	w.place("a0", "web", 0, "n1", "")
	w.report("a0", model.AllocClientStatusComplete)
	w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
	if w.decide(); w.draining("n1") {
		t.Error("the node drains for ever")
	}
}

// Many ended allocs of a group are judged by one count of the allocs that run.
func TestADrainAwaitsDataWhileItsGroupIsShortOfAllocs(t *testing.T) {
	w := newWorld(t)
	w.movingJob(moves, 3)
	for i := range 3 {
		w.place(fmt.Sprint("a", i), "web", i, "n1", "")
	}
	w.drain("n1", model.DrainStrategy{Deadline: -1}) // all leave at once, and the drain ends
	w.decide()
	w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
	for i := range 3 {
		if w.decide(); !w.draining("n1") {
			t.Fatalf("%d of 3 places are taken again, and the drain is complete", i)
		}
		w.report(fmt.Sprint("a", i), model.AllocClientStatusComplete)
		w.place(fmt.Sprint("b", i), "web", i, "n2", "")
	}
	if w.decide(); w.draining("n1") {
		t.Error("all places are taken again, and the node drains for ever")
	}
}
