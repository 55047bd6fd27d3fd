// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit/invariants"
	"github.com/drover-project/drover/sdk/errdefs"
)

func parameterized(id string) *model.Job {
	j := testJob(id, 1)
	j.Type, j.TaskGroups[0].Update = model.JobTypeBatch, nil
	j.ParameterizedJob = &model.ParameterizedJobConfig{Payload: "optional", MetaOptional: []string{"who"}}
	j.Meta = map[string]string{"who": "nobody", "kept": "yes"}
	return j
}

func periodic(id string) *model.Job {
	j := testJob(id, 1)
	j.Type, j.TaskGroups[0].Update = model.JobTypeBatch, nil
	j.Periodic = &model.PeriodicConfig{Enabled: true, Specs: []string{"@hourly"}}
	return j
}

func dispatch(child, token string) *fsm.DispatchJob {
	return &fsm.DispatchJob{
		Namespace: "default", ParentID: "p", ChildID: child, IdempotencyToken: token, SubmitTime: 7,
		Eval: &model.Evaluation{ID: "e-" + child, Namespace: "default", JobID: child, Status: model.EvalStatusPending},
	}
}

func TestADispatchedChildIsTheParentWithItsOwnPayloadMetaAndPriority(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: parameterized("p")})
	c := dispatch("p/dispatch-1-a", "")
	c.Payload, c.Meta, c.Priority = []byte("hi"), map[string]string{"who": "me"}, 70
	index := mustApply(t, f, c)
	v := f.Store().View()
	parent, child := v.JobByID("default", "p"), v.JobByID("default", "p/dispatch-1-a")
	want := parameterized("p")
	want.ID, want.Name, want.ParentID, want.Dispatched = child.ID, child.ID, "p", true
	want.Payload, want.Meta, want.Priority = []byte("hi"), map[string]string{"who": "me", "kept": "yes"}, 70
	want.SubmitTime, want.CreateIndex, want.ModifyIndex, want.JobModifyIndex, want.Status = 7, index, index, index, model.JobStatusPending
	if diff := cmp.Diff(want, child, cmp.Transformer("config", func(m map[string]any) int { return len(m) })); diff != "" {
		t.Error(diff)
	}
	if parent.Meta["who"] != "nobody" {
		t.Error("the parent's meta has changed")
	}
	if child.TaskGroups[0] != parent.TaskGroups[0] {
		t.Error("parent and child hold two copies of the same groups")
	}
	if e := v.EvalByID("e-p/dispatch-1-a"); e == nil || e.JobModifyIndex != index {
		t.Errorf("the eval is %+v", e)
	}
}

func TestATokenDispatchesOnceAsLongAsItsChildExists(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: parameterized("p")})
	mustApply(t, f, dispatch("p/dispatch-1-a", "tok"))
	mustApply(t, f, dispatch("p/dispatch-1-b", "other"))
	mustApply(t, f, dispatch("p/dispatch-1-c", ""))
	mustApply(t, f, dispatch("p/dispatch-1-d", ""))
	if _, got := apply(t, f, dispatch("p/dispatch-2-a", "tok")); !isClass(got, errdefs.IsAlreadyExists) {
		t.Fatalf("a token was used twice: %v", got)
	}
	if f.Store().View().JobByID("default", "p/dispatch-2-a") != nil {
		t.Fatal("the second dispatch made a job")
	}
	g := newFSM()
	if err := g.Restore(bytes.NewReader(snapshotOf(t, f))); err != nil {
		t.Fatal(err)
	}
	if j := g.Store().View().JobByDispatchToken("default", "p", "tok"); j == nil || j.ID != "p/dispatch-1-a" {
		t.Errorf("after a restore the token leads to %v", j)
	}
	mustApply(t, f, &fsm.DeregisterJob{Namespace: "default", ID: "p/dispatch-1-a", Purge: true})
	mustApply(t, f, dispatch("p/dispatch-3-a", "tok"))
}

func isClass(answer any, is func(error) bool) bool {
	err, ok := answer.(error)
	return ok && is(err)
}

func TestDispatchesThatCannotBeChangeNothing(t *testing.T) {
	f := newFSM()
	if _, got := apply(t, f, dispatch("p/dispatch-1-a", "")); !isClass(got, errdefs.IsNotFound) {
		t.Errorf("without a parent: %v", got)
	}
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("p", 1)})
	if _, got := apply(t, f, dispatch("p/dispatch-1-a", "")); !isClass(got, errdefs.IsFailedPrecondition) {
		t.Errorf("of a job that is not parameterized: %v", got)
	}
	mustApply(t, f, &fsm.UpsertJob{Job: parameterized("p")})
	mustApply(t, f, dispatch("p/dispatch-1-a", ""))
	if _, got := apply(t, f, dispatch("p/dispatch-1-a", "")); !isClass(got, errdefs.IsConflict) {
		t.Errorf("under an id that is taken: %v", got)
	}
	mustApply(t, f, &fsm.DeregisterJob{Namespace: "default", ID: "p"})
	if _, got := apply(t, f, dispatch("p/dispatch-1-b", "")); !isClass(got, errdefs.IsFailedPrecondition) {
		t.Errorf("of a stopped job: %v", got)
	}
}

func launch(at time.Time) *fsm.LaunchPeriodic {
	id := model.PeriodicChildID("p", at.Unix())
	return &fsm.LaunchPeriodic{Namespace: "default", ParentID: "p", Launch: at.UnixNano(), SubmitTime: at.UnixNano(),
		Eval: &model.Evaluation{ID: "e-" + id, Namespace: "default", JobID: id, Status: model.EvalStatusPending}}
}

func children(f *fsm.FSM) int { return len(f.Store().View().JobChildren("default", "p")) }

func TestNoTimeIsLaunchedTwice(t *testing.T) {
	f := newFSM()
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	mustApply(t, f, &fsm.UpsertJob{Job: periodic("p")})
	mustApply(t, f, launch(ten))
	mustApply(t, f, launch(ten))
	mustApply(t, f, launch(ten.Add(-time.Hour)))
	child := f.Store().View().JobByID("default", "p/periodic-1795255200")
	if children(f) != 1 || child == nil || child.IsPeriodic() || child.ParentID != "p" || child.Status != model.JobStatusPending {
		t.Fatalf("%d children, %+v", children(f), child)
	}
	g := newFSM()
	if err := g.Restore(bytes.NewReader(snapshotOf(t, f))); err != nil {
		t.Fatal(err)
	}
	mustApply(t, g, launch(ten))
	if children(g) != 1 {
		t.Error("a restored server launches again")
	}
}

func TestASkippedTimeIsDealtWith(t *testing.T) {
	f := newFSM()
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	mustApply(t, f, &fsm.UpsertJob{Job: periodic("p")})
	skip := launch(ten)
	skip.Skipped, skip.Eval = "overlap", nil
	mustApply(t, f, skip)
	mustApply(t, f, launch(ten))
	l := f.Store().View().PeriodicLaunch("default", "p")
	if children(f) != 0 || l.Launch != ten.UnixNano() || l.Skipped != "overlap" {
		t.Fatalf("%d children, launch %+v", children(f), l)
	}
	forced := launch(ten)
	forced.Force = true
	mustApply(t, f, forced)
	mustApply(t, f, forced)
	if children(f) != 1 {
		t.Errorf("a forced launch gives %d children", children(f))
	}
}

func TestOnlyEnabledPeriodicJobsAreLaunched(t *testing.T) {
	ten := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	off := periodic("p")
	off.Periodic.Enabled = false
	for name, prepare := range map[string][]fsm.Command{
		"missing":  nil,
		"disabled": {&fsm.UpsertJob{Job: off}},
		"stopped":  {&fsm.UpsertJob{Job: periodic("p")}, &fsm.DeregisterJob{Namespace: "default", ID: "p"}},
		"another":  {&fsm.UpsertJob{Job: testJob("p", 1)}},
	} {
		f := newFSM()
		for _, c := range prepare {
			mustApply(t, f, c)
		}
		mustApply(t, f, launch(ten)) // decided before the job changed: no error
		forced := launch(ten)
		forced.Force = true
		if _, got := apply(t, f, forced); !isClass(got, errdefs.IsFailedPrecondition) || children(f) != 0 {
			t.Errorf("%s: %v, %d children", name, got, children(f))
		}
	}
}

func TestPurgingAPeriodicJobForgetsItsLaunches(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: periodic("p")})
	mustApply(t, f, launch(time.Unix(1e9, 0)))
	mustApply(t, f, &fsm.DeregisterJob{Namespace: "default", ID: "p", Purge: true})
	if l := f.Store().View().PeriodicLaunch("default", "p"); l != nil {
		t.Errorf("left: %+v", l)
	}
}

func TestAPurgedParentStillCountsItsChildrenWhenItIsBack(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: parameterized("p")})
	mustApply(t, f, dispatch("p/dispatch-1-a", ""))
	mustApply(t, f, &fsm.DeregisterJob{Namespace: "default", ID: "p", Purge: true})
	mustApply(t, f, &fsm.UpsertEvals{Evals: []*model.Evaluation{{ID: "e-p/dispatch-1-a", Namespace: "default", JobID: "p/dispatch-1-a", Status: model.EvalStatusComplete}}})
	mustApply(t, f, &fsm.UpsertJob{Job: parameterized("p")})
	if got := *f.Store().View().JobSummary("default", "p").Children; got != (model.JobChildrenSummary{Dead: 1}) {
		t.Errorf("children are %+v", got)
	}
}

func TestGarbageCollectionSparesWhatHasComeBack(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 1)})
	seen := f.Store().View().JobByID("default", "web").ModifyIndex
	mustApply(t, f, &fsm.UpsertJob{Job: testJob("web", 2)})
	mustApply(t, f, &fsm.DeregisterJob{Namespace: "default", ID: "web", Purge: true, IfModifyIndex: seen})
	mustApply(t, f, &fsm.RegisterNode{Node: &model.Node{ID: "n", Status: model.NodeStatusReady, NodePool: "default"}})
	mustApply(t, f, &fsm.DeregisterNodes{IDs: []string{"n"}, OnlyDown: true})
	if v := f.Store().View(); v.JobByID("default", "web") == nil || v.NodeByID("n") == nil {
		t.Error("a job or node that is in use was removed")
	}
}

func TestARecountChangesNoCountAndLeavesTheGroupsOfTemplatesOut(t *testing.T) {
	for seed := range uint64(10) {
		f := newFSM()
		applyIn(f, newWorld(seed).log(t, 200), rand.New(rand.NewPCG(seed, 3)), 8)
		before := map[string]model.JobSummary{}
		for j := range f.Store().View().Jobs("") {
			before[j.ID] = *f.Store().View().JobSummary(j.Namespace, j.ID)
		}
		mustApply(t, f, &fsm.RecountJobs{})
		invariants.Check(t, f.Store().View())
		for j := range f.Store().View().Jobs("") {
			got, want := *f.Store().View().JobSummary(j.Namespace, j.ID), before[j.ID]
			if _, ok := got.Summary["web"]; !ok && (j.IsPeriodic() || j.IsParameterized()) {
				delete(want.Summary, "web")
			}
			want.ModifyIndex = got.ModifyIndex
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, job %s: %s", seed, j.ID, diff)
			}
		}
	}
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: periodic("p")})
	mustApply(t, f, &fsm.RecountJobs{})
	if s := f.Store().View().JobSummary("default", "p"); len(s.Summary) != 0 {
		t.Errorf("a template has groups: %+v", s.Summary)
	}
	again := periodic("p")
	again.Priority = 70
	mustApply(t, f, &fsm.UpsertJob{Job: again})
	if s := f.Store().View().JobSummary("default", "p"); len(s.Summary) != 1 {
		t.Errorf("a template that is registered again has no groups: %+v", s.Summary)
	}
}

func TestChildrenAndVersionsShareTheirGroupsAlsoAfterARestore(t *testing.T) {
	f := newFSM()
	mustApply(t, f, &fsm.UpsertJob{Job: parameterized("p")})
	for i := range 100 {
		mustApply(t, f, dispatch(fmt.Sprint("p/dispatch-1-", i), ""))
	}
	again := parameterized("p")
	again.Priority = 70
	mustApply(t, f, &fsm.UpsertJob{Job: again})
	snap := snapshotOf(t, f)
	alone := newFSM()
	mustApply(t, alone, &fsm.UpsertJob{Job: parameterized("p")})
	if perChild := (len(snap) - len(snapshotOf(t, alone))) / 101; perChild > 600 {
		t.Errorf("a child takes %d bytes of a snapshot", perChild)
	}
	g := newFSM()
	if err := g.Restore(bytes.NewReader(snap)); err != nil {
		t.Fatal(err)
	}
	v := g.Store().View()
	parent := v.JobByID("default", "p")
	for _, child := range append(v.JobChildren("default", "p"), v.JobByVersion("default", "p", 0)) {
		if child.TaskGroups[0] != parent.TaskGroups[0] {
			t.Fatalf("%s version %d has groups of its own", child.ID, child.Version)
		}
	}
	if diff := cmp.Diff(f.Store().View().JobByID("default", "p").TaskGroups, parent.TaskGroups); diff != "" {
		t.Error(diff)
	}
}
