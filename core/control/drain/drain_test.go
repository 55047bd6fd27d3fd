// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drain_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/drain"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit/invariants"
	"github.com/drover-project/drover/internal/testkit/lifecycles"
)

// world is a real state that commands change, at a time that the test sets.
type world struct {
	t     *testing.T
	store *state.Store
	fsm   *fsm.FSM
	index uint64
	now   time.Time
	ids   int
	wrong time.Duration // by which the clocks of nodes are ahead
}

func newWorld(t *testing.T) *world {
	s := state.New()
	lifecycles.Check(t, s)
	w := &world{t: t, store: s, fsm: fsm.New(s, hclog.NewNullLogger()), now: time.Unix(1_800_000_000, 0).UTC()}
	invariants.AtEnd(t, s)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.apply(&fsm.RegisterNode{Node: &model.Node{ID: id, Name: id, Status: model.NodeStatusReady, StatusUpdatedAt: w.now.Unix()}})
	}
	return w
}

func (w *world) apply(c fsm.Command) {
	w.t.Helper()
	data, err := fsm.Encode(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.index++
	for _, answer := range w.fsm.ApplyBatch([]fsm.Entry{{Index: w.index, Data: data}}) {
		if err, bad := answer.(error); bad && err != nil {
			w.t.Fatalf("%T: %v", c, err)
		}
	}
}

func (w *world) newID() string {
	w.ids++
	return "id-" + strconv.Itoa(w.ids)
}

func (w *world) job(id, kind string, count, parallel int) {
	w.apply(&fsm.UpsertJob{Job: &model.Job{
		Region: "global", Namespace: "default", ID: id, Name: id, Type: kind, Priority: 60, NodePool: "default", Datacenters: []string{"*"},
		TaskGroups: []*model.TaskGroup{{
			Name: "g", Count: count, Migrate: &model.MigrateStrategy{MaxParallel: parallel, MinHealthyTime: 10 * time.Second},
			Tasks: []*model.Task{{Name: "t", Driver: "raw_exec"}},
		}},
	}})
}

// place puts a running alloc on a node.
func (w *world) place(id, job string, index int, node, previous string) {
	at := w.store.View().Index()
	w.apply(&fsm.ApplyPlan{UpdatedAt: w.now.UnixNano(), VerifiedIndex: at, Plan: &model.Plan{
		Namespace: "default", JobID: job, SnapshotIndex: at, Place: []*model.Allocation{{
			ID: id, Name: model.AllocName(job, "g", index), TaskGroup: "g", NodeID: node, PreviousAllocation: previous,
			AllocatedResources: &model.AllocatedResources{}, CreateTime: w.now.UnixNano(),
		}},
	}})
	w.report(id, model.AllocClientStatusRunning)
}

func (w *world) report(id, status string) {
	started := w.now.Add(w.wrong).UnixNano()
	w.apply(&fsm.UpdateAllocsFromClient{At: w.now.UnixNano(), Reports: []*model.AllocReport{{
		ID: id, ClientStatus: status,
		Tasks: map[string]*model.TaskReport{"t": {State: model.TaskStateRunning, StartedAt: &started}},
	}}})
}

func (w *world) drain(node string, s model.DrainStrategy) {
	s.StartedAt = w.now
	if s.Deadline > 0 {
		s.ForceDeadline = w.now.Add(s.Deadline)
	}
	w.apply(&fsm.UpdateNodeDrain{
		NodeID: node, Strategy: &s, UpdatedAt: w.now.Unix(),
		LastDrain: &model.DrainMetadata{StartedAt: w.now, UpdatedAt: w.now, Status: "draining", Meta: map[string]string{"m": "x"}},
	})
}

// decide takes and applies the decisions of all draining nodes and returns the
// time at which the controller wants to look again.
func (w *world) decide(keys ...string) time.Time {
	w.t.Helper()
	var wake time.Time
	if len(keys) == 0 {
		var err error
		if keys, err = control.All(drain.Controller{}, w.store.View()); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, key := range keys {
		d, err := control.Decide(drain.Controller{}, w.store.View(), w.now, w.newID, key)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range d.Commands {
			w.apply(c)
		}
		if wake.IsZero() || !d.Wake.IsZero() && d.Wake.Before(wake) {
			wake = d.Wake
		}
	}
	return wake
}

// after decides what a change asks for.
func (w *world) after(c state.Change) {
	w.t.Helper()
	keys := drain.Controller{}.Keys(c)
	if len(keys) == 0 {
		w.t.Fatalf("a change of %s asks for nothing: %+v", c.Table, c)
	}
	w.decide(keys...)
}

// want compares the marked allocs.
func (w *world) want(ids string) {
	w.t.Helper()
	var got []string
	for a := range w.store.View().Allocs() {
		if a.DesiredTransition.ShouldMigrate() {
			got = append(got, a.ID)
		}
	}
	slices.Sort(got)
	if strings.Join(got, " ") != ids {
		w.t.Fatalf("marked: %v, want %q", got, ids)
	}
}

func (w *world) draining(node string) bool { return w.store.View().NodeByID(node).DrainStrategy != nil }

func TestServiceAllocsLeaveAsTheirReplacementsBecomeHealthy(t *testing.T) {
	w := newWorld(t)
	w.job("web", model.JobTypeService, 3, 1)
	for i := range 3 {
		w.place(fmt.Sprintf("a%d", i), "web", i, "n1", "")
	}
	w.drain("n1", model.DrainStrategy{Deadline: time.Hour})
	if wake := w.decide(); !wake.Equal(w.now.Add(time.Hour)) {
		t.Fatalf("the controller wakes at %v, not at the deadline", wake)
	}
	w.want("a0")
	evals := w.store.View().EvalsByJob("default", "web")
	if len(evals) != 1 || evals[0].TriggeredBy != model.EvalTriggerNodeDrain || evals[0].Priority != 60 {
		t.Fatalf("evals: %+v", evals)
	}
	w.decide()
	w.want("a0")
	w.place("b0", "web", 0, "n2", "a0")
	w.report("a0", model.AllocClientStatusComplete)
	if wake := w.decide(); !wake.Equal(w.now.Add(10 * time.Second)) {
		t.Fatalf("the controller wakes at %v, not when the replacement is healthy", wake)
	}
	w.want("a0")
	w.now = w.now.Add(10 * time.Second)
	w.decide()
	w.want("a0 a1")
}

func TestTheClockOfANodeDoesNotDelayADrain(t *testing.T) {
	for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
		w := newWorld(t)
		w.job("web", model.JobTypeService, 2, 1)
		w.place("a0", "web", 0, "n1", "")
		w.place("a1", "web", 1, "n1", "")
		w.drain("n1", model.DrainStrategy{Deadline: 2 * time.Hour})
		w.decide()
		w.wrong = wrong
		w.place("b0", "web", 0, "n2", "a0")
		w.report("a0", model.AllocClientStatusComplete)
		if wake := w.decide(); !wake.Equal(w.now.Add(10 * time.Second)) {
			t.Errorf("with a clock that is %s ahead the controller wakes at %v, not when the replacement is healthy", wrong, wake)
		}
	}
}

func TestTwoDrainingNodesShareTheRoomOfAGroup(t *testing.T) {
	w := newWorld(t)
	w.job("web", model.JobTypeService, 2, 1)
	w.place("a0", "web", 0, "n1", "")
	w.place("a1", "web", 1, "n2", "")
	w.drain("n1", model.DrainStrategy{})
	w.drain("n2", model.DrainStrategy{})
	w.decide("job/default/web")
	w.want("a0")
	w.place("b0", "web", 0, "n3", "a0")
	w.now = w.now.Add(time.Minute)
	w.after(state.Change{Table: state.TableAllocs, New: w.store.View().AllocByID("b0")})
	w.want("a0 a1")
}

func TestSystemAllocsLeaveLastOrStayIfIgnored(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		w := newWorld(t)
		w.job("web", model.JobTypeService, 1, 1)
		w.job("sys", model.JobTypeSystem, 1, 1)
		w.place("a0", "web", 0, "n1", "")
		w.place("s0", "sys", 0, "n1", "")
		w.drain("n1", model.DrainStrategy{IgnoreSystemJobs: ignore})
		w.decide()
		w.want("a0")
		w.report("a0", model.AllocClientStatusComplete)
		w.decide()
		if ignore {
			w.want("a0")
		} else {
			w.want("a0 s0")
			if !w.draining("n1") {
				t.Fatal("the drain ended before the system alloc had left")
			}
			w.report("s0", model.AllocClientStatusComplete)
			w.decide()
		}
		n := w.store.View().NodeByID("n1")
		if n.DrainStrategy != nil || n.SchedulingEligibility != model.NodeSchedulingIneligible || n.LastDrain.Status != "complete" || n.LastDrain.Meta["m"] != "x" {
			t.Fatalf("ignore=%v: the drain did not end well: %+v %+v", ignore, n.DrainStrategy, n.LastDrain)
		}
		if e := n.Events[len(n.Events)-1]; e.Message != "Node drain complete" || e.Subsystem != "Drain" {
			t.Fatalf("the last event is %+v", e)
		}
	}
}

func TestBatchAllocsMayFinishUntilTheDeadline(t *testing.T) {
	w := newWorld(t)
	w.job("batch", model.JobTypeBatch, 2, 1)
	w.place("a0", "batch", 0, "n1", "")
	w.place("a1", "batch", 1, "n1", "")
	w.drain("n1", model.DrainStrategy{Deadline: time.Minute})
	wake := w.decide()
	w.want("")
	w.now = wake.Add(-time.Nanosecond)
	w.decide()
	w.want("")
	w.now = wake
	w.decide()
	w.want("a0 a1")
	if w.draining("n1") {
		t.Fatal("the drain did not end at its deadline")
	}
}

func TestANegativeDeadlineForcesEverythingAtOnce(t *testing.T) {
	w := newWorld(t)
	w.job("web", model.JobTypeService, 2, 1)
	w.job("sys", model.JobTypeSystem, 1, 1)
	w.place("a0", "web", 0, "n1", "")
	w.place("a1", "web", 1, "n1", "")
	w.place("s0", "sys", 0, "n1", "")
	w.drain("n1", model.DrainStrategy{Deadline: -1})
	w.decide()
	w.want("a0 a1 s0")
	if w.draining("n1") {
		t.Fatal("the drain did not end at once")
	}
}

func TestAnAllocThatNothingReplacesHoldsNoRoom(t *testing.T) {
	w := newWorld(t)
	w.job("web", model.JobTypeService, 3, 1)
	for i := range 3 {
		w.place(fmt.Sprintf("a%d", i), "web", 2-i, "n1", "")
	}
	w.drain("n1", model.DrainStrategy{})
	w.decide()
	w.want("a0")
	w.job("web", model.JobTypeService, 2, 1) // web.g[2] is not wanted any more
	w.decide()
	w.want("a0")
	w.report("a0", model.AllocClientStatusComplete)
	w.decide()
	w.want("a0 a1")
}
