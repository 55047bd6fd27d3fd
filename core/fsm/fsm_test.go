// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestCommandsComeBackAsTheyWere(t *testing.T) {
	w := newWorld(4)
	for range 500 {
		c := w.next()
		data, err := fsm.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := fsm.Decode(data)
		if err != nil {
			t.Fatalf("%T: %v", c, err)
		}
		again, err := fsm.Encode(back)
		if err != nil || !bytes.Equal(data, again) {
			t.Fatalf("%T encodes to other bytes after a round trip (%v)", c, err)
		}
	}
}

func TestAJobKeepsEveryValueThroughTheLog(t *testing.T) {
	job := testJob("web", 3)
	delay := 3 * time.Second
	job.TaskGroups[0].ShutdownDelay = &delay
	job.TaskGroups[0].Meta = map[string]string{"a": "1"}
	job.TaskGroups[0].Tasks[0].Env = map[string]string{}
	job.Payload = []byte{0, 1, 0xff}
	data, err := fsm.Encode(&fsm.UpsertJob{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	back, err := fsm.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	want := testJob("web", 3)
	want.TaskGroups[0].ShutdownDelay, want.TaskGroups[0].Meta = &delay, map[string]string{"a": "1"}
	want.TaskGroups[0].Tasks[0].Env = map[string]string{}
	want.Payload = []byte{0, 1, 0xff}
	want.TaskGroups[0].Tasks[0].Config["args"] = []any{"1", int64(2), true, nil, 1.5} // as the codec reads numbers
	if diff := cmp.Diff(want, back.(*fsm.UpsertJob).Job); diff != "" {
		t.Error(diff)
	}
}

func TestAFieldThatJSONHidesIsStored(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1)})
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 2)})
	mustApply(t, f, place(t, f, &model.Allocation{ID: "a", JobVersion: 1, TaskGroup: "web"}))
	mustApply(t, f, &fsm.UpdateAllocsFromClient{Reports: []*model.AllocReport{{ID: "a", ClientStatus: "running",
		Tasks: map[string]*model.TaskReport{"t": {Before: 6, Whole: true, Events: []*model.TaskEvent{{Time: 5}}}}}}})
	g := newFSM()
	if err := g.Restore(bytes.NewReader(snapshotOf(t, f))); err != nil {
		t.Fatal(err)
	}
	got := g.Store().View().AllocByID("a")
	if got.JobVersion != 1 || got.TaskStates["t"].LastEvent != 7 {
		t.Errorf("job version %d, event %d after a restore", got.JobVersion, got.TaskStates["t"].LastEvent)
	}
}

func TestTimesKeepTheirInstant(t *testing.T) {
	until := time.Date(2026, 11, 21, 14, 0, 0, 123456789, time.FixedZone("x", 3600))
	f := newFSM()
	mustApply(t, f, &fsm.UpsertEvals{Evals: []*model.Evaluation{
		{ID: "e", JobID: "web", Namespace: "default", WaitUntil: until}, {ID: "zero", JobID: "web", Namespace: "default"}}})
	v := f.Store().View()
	if got := v.EvalByID("e").WaitUntil; !got.Equal(until) {
		t.Errorf("%v became %v", until, got)
	}
	if got := v.EvalByID("zero").WaitUntil; !got.IsZero() {
		t.Errorf("the zero time became %v", got)
	}
}

func TestAllocsOfOnePlanShareTheirResourcesAlsoAfterARestore(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 2)})
	res := testResources(100, 64)
	mustApply(t, f, place(t, f, &model.Allocation{ID: "a", TaskGroup: "web", AllocatedResources: res},
		&model.Allocation{ID: "b", TaskGroup: "web", AllocatedResources: res}))
	g := newFSM()
	if err := g.Restore(bytes.NewReader(snapshotOf(t, f))); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]interface {
		AllocByID(string) *model.Allocation
	}{"applied": f.Store().View(), "restored": g.Store().View()} {
		if v.AllocByID("a").AllocatedResources != v.AllocByID("b").AllocatedResources {
			t.Errorf("%s: each alloc has resources of its own", name)
		}
	}
}

func TestWhatAllocsOfAPlanHaveEqualIsHeldOnce(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 3)})
	on := func(port int) *model.AllocatedResources {
		r := testResources(100, 64)
		r.Shared.Ports = []model.AllocatedPortMapping{{Label: "http", Value: port}}
		return r
	}
	var allocs []*model.Allocation
	for i, port := range []int{1000, 1000, 2000} {
		allocs = append(allocs, &model.Allocation{ID: string(rune('a' + i)), TaskGroup: "web", AllocatedResources: on(port), Metrics: &model.AllocMetric{NodesEvaluated: 5}})
	}
	mustApply(t, f, place(t, f, allocs...))
	v := f.Store().View()
	a, b, c := v.AllocByID("a"), v.AllocByID("b"), v.AllocByID("c")
	if a.AllocatedResources != b.AllocatedResources {
		t.Error("equal resources are held twice")
	}
	if got := c.AllocatedResources.Shared.Ports[0].Value; got != 2000 || a.AllocatedResources.Shared.Ports[0].Value != 1000 {
		t.Errorf("the ports became %d and %d", a.AllocatedResources.Shared.Ports[0].Value, got)
	}
	if reflect.ValueOf(a.AllocatedResources.Tasks).Pointer() != reflect.ValueOf(c.AllocatedResources.Tasks).Pointer() {
		t.Error("equal resources of tasks are held twice, because the ports differ")
	}
	if d := cmp.Diff(testResources(100, 64).Tasks, c.AllocatedResources.Tasks); d != "" {
		t.Error(d)
	}
	if a.Metrics != b.Metrics {
		t.Error("equal metrics without scores are held twice")
	}
}

func TestEnforcedIndexesRefuseWithTheReferencesWords(t *testing.T) {
	f := newFSM()
	if _, got := apply(t, f, &fsm.UpsertJob{Job: testJob("web", 1), EnforceIndex: true, JobModifyIndex: 3}); text([]any{got}) != "[Enforcing job modify index 3: job does not exist]" {
		t.Error(got)
	}
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1), EnforceIndex: true})
	_, got := apply(t, f, &fsm.UpsertJob{Job: testJob("web", 2), EnforceIndex: true, JobModifyIndex: 1})
	if err, ok := got.(error); !ok || !errdefs.IsConflict(err) || !strings.Contains(err.Error(), "job exists with conflicting job modify index: 3") {
		t.Error(got)
	}
}

func TestACommandThatPanicsIsLostAloneAndSaysSo(t *testing.T) {
	bad := func() fsm.Command {
		return &fsm.ApplyPlan{Plan: &model.Plan{Deployment: &model.Deployment{ID: "d", JobID: "web", Namespace: "default", Status: "running", TaskGroups: map[string]*model.DeploymentState{"web": nil}}}}
	}
	f := newFSM()
	mustApply(t, f, &fsm.ApplyPlan{Plan: &model.Plan{Deployment: &model.Deployment{ID: "d", JobID: "web", Namespace: "default", Status: "running", TaskGroups: map[string]*model.DeploymentState{"web": {}}}}})
	var entries []fsm.Entry
	for i, c := range []fsm.Command{&fsm.UpsertJob{Job: testJob("a", 1)}, bad(), &fsm.UpsertJob{Job: testJob("b", 1)}} {
		data, err := fsm.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, fsm.Entry{Index: uint64(10 + i), Data: data})
	}
	results := f.ApplyBatch(entries)
	if err, ok := results[1].(error); refused(results[0]) || refused(results[2]) || !ok || !errdefs.IsInternal(err) {
		t.Fatalf("results are %v", results)
	}
	v := f.Store().View()
	if v.JobByID("default", "a") == nil || v.JobByID("default", "b") == nil || v.Index() != 12 {
		t.Errorf("the other commands were lost; the index is %d", v.Index())
	}
}

func TestFromAnEntryThatCannotBeReadOnNothingIsApplied(t *testing.T) {
	f := newFSM()
	job := func(id string) []byte {
		data, err := fsm.Encode(&fsm.UpsertJob{Job: testJob(id, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	entries := []fsm.Entry{{Index: 10, Data: job("before")}, {Index: 11, Data: []byte{1, 255}}, {Index: 12, Data: job("after")}}
	answers := f.ApplyBatch(entries)
	answers = append(answers, f.ApplyBatch([]fsm.Entry{{Index: 13, Data: job("later")}})...)
	if refused(answers[0]) {
		t.Errorf("the entry before: %v", answers[0])
	}
	for i, a := range answers[1:] {
		var unread *fsm.UnreadableError
		err, _ := a.(error)
		if !errors.As(err, &unread) || unread.Index != 11 || !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "entry 11 of the log cannot be read") {
			t.Errorf("entry %d: %v", 11+i, a)
		}
	}
	v := f.Store().View()
	if v.JobByID("default", "before") == nil || v.JobByID("default", "after") != nil || v.JobByID("default", "later") != nil || v.Index() != 10 {
		t.Errorf("the state is at index %d", v.Index())
	}
	if _, err := f.Snapshot(); err == nil {
		t.Error("there is a snapshot of a state that is not the newest")
	}
}

func TestAJobThatWasChangedMeanwhileIsNotReverted(t *testing.T) {
	for _, changed := range []bool{false, true} {
		f := newFSM()
		mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1)})
		mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 2)})
		mustApply(t, f, &fsm.ApplyPlan{Plan: &model.Plan{
			Namespace: "default", JobID: "web", SnapshotIndex: f.Store().View().Index(),
			Deployment: &model.Deployment{ID: "d", Namespace: "default", JobID: "web", JobVersion: 1, Status: model.DeploymentStatusRunning},
		}})
		if changed {
			mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 3)})
		}
		mustApply(t, f, &fsm.UpdateDeploymentStatus{
			Update: &model.DeploymentStatusUpdate{DeploymentID: "d", Status: model.DeploymentStatusFailed}, Job: testJob("web", 1),
		})
		want := 1
		if changed {
			want = 3
		}
		if got := f.Store().View().JobByID("default", "web").TaskGroups[0].Count; got != want {
			t.Errorf("changed meanwhile: %v: the job has count %d, not %d", changed, got, want)
		}
	}
}

func TestAVariableSealedWithAKeyThatIsGoneIsNotStored(t *testing.T) {
	f := newFSM()
	put := &fsm.PutVariable{Variable: &model.Variable{Namespace: "default", Path: "v", KeyID: "k", Data: []byte("x")}}
	data, err := fsm.Encode(put)
	if err != nil {
		t.Fatal(err)
	}
	refused, ok := f.ApplyBatch([]fsm.Entry{{Index: f.Store().View().Index() + 1, Data: data}})[0].(error)
	if !ok || !errdefs.IsAborted(refused) || f.Store().View().VariableByPath("default", "v") != nil {
		t.Fatalf("got %v, want the write refused: nobody could ever read it", refused)
	}
	mustApply(t, f, &fsm.UpsertRootKey{Key: &model.RootKey{KeyID: "k", State: model.RootKeyActive}})
	mustApply(t, f, put)
}

func TestAPlanThatDoesNotKnowTheJobsDeploymentBeginsNoOther(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1)})
	deployment := func(id string) *model.Deployment {
		return &model.Deployment{ID: id, Namespace: "default", JobID: "web", Status: model.DeploymentStatusRunning, TaskGroups: map[string]*model.DeploymentState{"web": {DesiredTotal: 1}}}
	}
	first, second := place(t, f, &model.Allocation{ID: "a", JobID: "web"}), place(t, f, &model.Allocation{ID: "b", JobID: "web"})
	first.Plan.Deployment, second.Plan.Deployment = deployment("d1"), deployment("d2")
	// Another leader committed the first, of which nothing but the deployment was accepted.
	first.Plan.Place = nil
	mustApply(t, f, first)
	if _, answer := apply(t, f, second); answer == nil {
		t.Error("the second plan was accepted as a whole")
	}
	if v := f.Store().View(); v.DeploymentByID("d2") != nil || v.AllocByID("b") != nil || v.DeploymentByID("d1") == nil {
		t.Error("the second plan began a deployment besides the first, which nobody would end")
	}
	again := place(t, f, &model.Allocation{ID: "c", JobID: "web", DeploymentID: "d1"})
	mustApply(t, f, again)
}

func TestADeploymentOfWhichEveryAllocWasRefusedDoesNotBegin(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1)})
	mustApply(t, f, place(t, f, &model.Allocation{ID: "a", JobID: "web"}))
	c := place(t, f)
	c.Plan.Deployment = &model.Deployment{ID: "d", Namespace: "default", JobID: "web", Status: model.DeploymentStatusRunning, TaskGroups: map[string]*model.DeploymentState{"web": {DesiredTotal: 1}}}
	c.Plan.Change = []model.AllocChange{{Kind: model.AllocUpdateInPlace, AllocID: "a", JobVersion: 1, DeploymentID: "d"}}
	mustApply(t, f, &fsm.UpdateAllocsFromClient{Reports: []*model.AllocReport{{ID: "a", ClientStatus: model.AllocClientStatusFailed}}})
	if _, answer := apply(t, f, c); answer == nil {
		t.Error("an alloc that has ended was updated in place")
	}
	if d := f.Store().View().DeploymentByID("d"); d != nil {
		t.Errorf("a deployment without allocs began: it has no deadline, and nobody ends it: %+v", d)
	}
}
