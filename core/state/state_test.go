// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// update runs fn at the next index.
func update(t *testing.T, s *state.Store, fn func(*state.Tx) error) uint64 {
	t.Helper()
	index := s.View().Index() + 1
	if err := s.Update(index, fn); err != nil {
		t.Fatal(err)
	}
	return index
}

func job(id string, count int) *model.Job {
	return &model.Job{Namespace: "default", ID: id, Type: model.JobTypeService, TaskGroups: []*model.TaskGroup{{Name: "web", Count: count}}}
}

func register(t *testing.T, s *state.Store, j *model.Job) uint64 {
	t.Helper()
	return update(t, s, func(tx *state.Tx) error { tx.UpsertJob(j, nil); return nil })
}

func alloc(id string, version uint64) *model.Allocation {
	return &model.Allocation{
		ID: id, Namespace: "default", JobID: "web", JobVersion: version, TaskGroup: "web", NodeID: "n1", EvalID: "e1",
		DesiredStatus: "run", ClientStatus: "pending",
		AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{
			"t": {Cpu: model.AllocatedCpuResources{CpuShares: 100}, Memory: model.AllocatedMemoryResources{MemoryMB: 64}}}},
	}
}

func place(t *testing.T, s *state.Store, a *model.Allocation) {
	t.Helper()
	update(t, s, func(tx *state.Tx) error { tx.PlaceAlloc(a, 1000); return nil })
}

func report(t *testing.T, s *state.Store, u *model.Allocation) {
	t.Helper()
	update(t, s, func(tx *state.Tx) error { return tx.UpdateAllocFromClient(u.ReportSince(nil), u.ModifyTime) })
}

func TestAFreshStoreHoldsWhatAFreshClusterStartsWith(t *testing.T) {
	v := state.New().View()
	if n := v.NamespaceByName("default"); n == nil || n.Description != "Default shared namespace" {
		t.Errorf("namespace default is %+v", n)
	}
	for name, text := range map[string]string{"all": "Node pool with all nodes in the cluster.", "default": "Default node pool."} {
		if p := v.NodePoolByName(name); p == nil || p.Description != text {
			t.Errorf("node pool %s is %+v", name, p)
		}
	}
	c := v.SchedulerConfig()
	if c.SchedulerAlgorithm != "binpack" || c.PreemptionConfig != (model.PreemptionConfig{SystemSchedulerEnabled: true}) {
		t.Errorf("the scheduler configuration is %+v", c)
	}
}

func TestAnEqualRegistrationKeepsItsVersionAndADifferentOneIsTheNext(t *testing.T) {
	s := state.New()
	first := register(t, s, job("web", 1))
	register(t, s, job("web", 1))
	if j := s.View().JobByID("default", "web"); j.Version != 0 || j.JobModifyIndex != first || j.CreateIndex != first {
		t.Fatalf("an equal registration gave version %d, job modify index %d", j.Version, j.JobModifyIndex)
	}
	second := register(t, s, job("web", 2))
	j := s.View().JobByID("default", "web")
	if j.Version != 1 || j.JobModifyIndex != second || j.CreateIndex != first {
		t.Fatalf("another specification gave version %d, job modify index %d, create index %d", j.Version, j.JobModifyIndex, j.CreateIndex)
	}
}

func TestSixVersionsAreKeptBesideTaggedOnesAndThoseThatAllocsUse(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 0))
	place(t, s, alloc("a1", 0))
	register(t, s, job("web", 1))
	update(t, s, func(tx *state.Tx) error {
		return tx.SetJobVersionTag("default", "web", 1, &model.JobVersionTag{Name: "golden"})
	})
	for count := 2; count < 12; count++ {
		register(t, s, job("web", count))
	}
	v := s.View()
	var versions []uint64
	for _, j := range v.JobVersions("default", "web") {
		versions = append(versions, j.Version)
	}
	if got := fmt.Sprint(versions); got != "[11 10 9 8 7 6 1]" {
		t.Errorf("kept versions are %s", got)
	}
	if a := v.AllocWithJob(v.AllocByID("a1")); a.Job == nil || a.Job.Version != 0 {
		t.Errorf("the version that an alloc runs is %+v", a.Job)
	}
	if v.JobByVersion("default", "web", 3) != nil {
		t.Error("version 3 is kept although nothing needs it")
	}
}

func TestAPurgedJobIsGoneButItsAllocsFindTheirVersionUntilTheyAreGoneToo(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	place(t, s, alloc("a1", 0))
	update(t, s, func(tx *state.Tx) error { return tx.PurgeJob("default", "web") })
	v := s.View()
	if v.JobByID("default", "web") != nil || v.JobSummary("default", "web") != nil {
		t.Error("a purged job can be read")
	}
	if v.AllocWithJob(v.AllocByID("a1")).Job == nil {
		t.Error("an alloc of a purged job lost its job")
	}
	register(t, s, job("web", 5))
	if j := s.View().JobByID("default", "web"); j.Version != 0 {
		t.Errorf("a job registered anew has version %d", j.Version)
	}
	if j := s.View().JobOf(s.View().AllocByID("a1")); j == nil || j.TaskGroups[0].Count != 1 {
		t.Errorf("the alloc of the purged job runs %+v", j)
	}
	update(t, s, func(tx *state.Tx) error { return tx.PurgeJob("default", "web") })
	update(t, s, func(tx *state.Tx) error { tx.DeleteAlloc("a1"); return nil })
	if s.View().JobByVersion("default", "web", 0) != nil {
		t.Error("the versions of a purged job outlive its last alloc")
	}
}

func TestJobStatusFollowsItsEvalsAndAllocs(t *testing.T) {
	s := state.New()
	status := func() string { return s.View().JobByID("default", "web").Status }
	expect := func(want, when string) {
		t.Helper()
		if got := status(); got != want {
			t.Fatalf("%s the job is %s, want %s", when, got, want)
		}
	}
	eval := func(st string) {
		update(t, s, func(tx *state.Tx) error {
			tx.UpsertEval(&model.Evaluation{ID: "e1", Namespace: "default", JobID: "web", Status: st})
			return nil
		})
	}
	register(t, s, job("web", 1))
	expect("pending", "registered")
	eval("pending")
	expect("pending", "with a pending eval")
	place(t, s, alloc("a1", 0))
	expect("running", "with an alloc")
	eval("complete")
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: "failed"})
	expect("dead", "with its last alloc failed")
	place(t, s, alloc("a2", 0))
	expect("running", "with a new alloc")
	stop(t, s, "a2", "")
	update(t, s, func(tx *state.Tx) error { return tx.StopJob("default", "web", 1) })
	expect("dead", "stopped")
}

// stop asks for the end of an alloc, with what servers say about how it ended.
func stop(t *testing.T, s *state.Store, id, clientStatus string) {
	t.Helper()
	update(t, s, func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocStop, AllocID: id, ClientStatus: clientStatus}, "e", 1)
	})
}

func TestASystemPeriodicOrParameterizedJobRunsUntilItIsStopped(t *testing.T) {
	for name, edit := range map[string]func(*model.Job){
		"system":        func(j *model.Job) { j.Type = model.JobTypeSystem },
		"periodic":      func(j *model.Job) { j.Periodic = &model.PeriodicConfig{Enabled: true} },
		"parameterized": func(j *model.Job) { j.ParameterizedJob = &model.ParameterizedJobConfig{} },
	} {
		s := state.New()
		j := job("web", 1)
		edit(j)
		register(t, s, j)
		if st := s.View().JobByID("default", "web").Status; st != "running" {
			t.Errorf("a %s job is %s", name, st)
		}
		update(t, s, func(tx *state.Tx) error { return tx.StopJob("default", "web", 1) })
		if st := s.View().JobByID("default", "web").Status; st != "dead" {
			t.Errorf("a stopped %s job is %s", name, st)
		}
	}
}

func TestAnAllocThatHasEndedIsNeverAliveAgain(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	for _, end := range []string{"complete", "failed"} {
		place(t, s, alloc(end, 0))
		report(t, s, &model.Allocation{ID: end, ClientStatus: end})
		report(t, s, &model.Allocation{ID: end, ClientStatus: "running"})
		stop(t, s, end, "lost")
		if got := s.View().AllocByID(end).ClientStatus; got != end {
			t.Errorf("an alloc that was %s became %s", end, got)
		}
	}
}

func TestRoomIsFreeOnlyWhenTheNodeSaysSo(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	place(t, s, alloc("a1", 0))
	stop(t, s, "a1", "")
	if cpu, mem, _ := s.View().NodeUsed("n1"); cpu != 100 || mem != 64 {
		t.Errorf("an alloc that shall stop uses %d MHz, %d MB", cpu, mem)
	}
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: "complete"})
	if cpu, mem, _ := s.View().NodeUsed("n1"); cpu != 0 || mem != 0 {
		t.Errorf("an ended alloc uses %d MHz, %d MB", cpu, mem)
	}
}

func TestWhatAWaitForANodeWasToEndWithIsForgottenWhenTheAllocIsReported(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	place(t, s, alloc("a1", 0))
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: "running"})
	update(t, s, func(tx *state.Tx) error {
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocMarkUnknown, AllocID: "a1", FollowupEvalID: "timeout"}, "e", 1)
	})
	if got := s.View().AllocByID("a1").FollowupEvalID; got != "timeout" {
		t.Fatalf("the alloc waits for evaluation %q", got)
	}
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: "running"})
	if got := s.View().AllocByID("a1").FollowupEvalID; got != "" {
		t.Errorf("the alloc is back and waits for evaluation %q: a failure would never be replaced", got)
	}
}

func TestDeploymentCountersAndDeadlineFollowItsAllocs(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 2))
	update(t, s, func(tx *state.Tx) error {
		tx.UpsertDeployment(&model.Deployment{ID: "d1", Namespace: "default", JobID: "web", Status: "running",
			TaskGroups: map[string]*model.DeploymentState{"web": {DesiredTotal: 2, DesiredCanaries: 1, ProgressDeadline: time.Minute}}}, 1)
		return nil
	})
	a := alloc("a1", 0)
	a.DeploymentID, a.DeploymentStatus = "d1", &model.AllocDeploymentStatus{Canary: true}
	place(t, s, a)
	group := func() *model.DeploymentState { return s.View().DeploymentByID("d1").TaskGroups["web"] }
	if g := group(); g.PlacedAllocs != 1 || fmt.Sprint(g.PlacedCanaries) != "[a1]" || !g.RequireProgressBy.Equal(time.Unix(60, 1000)) {
		t.Fatalf("after a placement: %+v", g)
	}
	promote := func() error {
		return s.Update(s.View().Index()+1, func(tx *state.Tx) error { return tx.PromoteDeployment("d1", nil, 5) })
	}
	if err := promote(); !errdefs.IsFailedPrecondition(err) {
		t.Fatalf("promoting before the canary is healthy: %v", err)
	}
	healthy, at := true, time.Unix(100, 0)
	report(t, s, &model.Allocation{ID: "a1", DeploymentID: "d1", ClientStatus: "running", ModifyTime: at.UnixNano(), DeploymentStatus: &model.AllocDeploymentStatus{Healthy: &healthy}})
	if g := group(); g.HealthyAllocs != 1 || !g.RequireProgressBy.Equal(at.Add(time.Minute)) {
		t.Fatalf("after a healthy report: %+v", g)
	}
	report(t, s, &model.Allocation{ID: "a1", DeploymentID: "d1", ClientStatus: "running", ModifyTime: at.UnixNano(), DeploymentStatus: &model.AllocDeploymentStatus{Healthy: &healthy}})
	if g := group(); g.HealthyAllocs != 1 {
		t.Fatalf("a repeated report counted twice: %+v", g)
	}
	if err := promote(); err != nil {
		t.Fatal(err)
	}
	if !group().Promoted || s.View().AllocByID("a1").DeploymentStatus.Canary {
		t.Error("the canary was not promoted")
	}
	update(t, s, func(tx *state.Tx) error {
		return tx.UpdateDeploymentStatus(&model.DeploymentStatusUpdate{DeploymentID: "d1", Status: "successful"})
	})
	if !s.View().JobByID("default", "web").Stable {
		t.Error("a successful deployment did not make the version stable")
	}
}

func TestAFailedUpdateChangesNothing(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	before := s.View()
	failure := errors.New("no")
	err := s.Update(99, func(tx *state.Tx) error {
		tx.UpsertJob(job("web", 2), nil)
		tx.PlaceAlloc(alloc("a1", 0), 1)
		return failure
	})
	if !errors.Is(err, failure) || s.View() != before {
		t.Fatalf("err %v; the view changed: %v", err, s.View() != before)
	}
	place(t, s, alloc("a2", 0))
	v := s.View()
	if v.AllocByID("a1") != nil || v.AllocByID("a2") == nil || v.JobByID("default", "web").Version != 0 {
		t.Error("what was rolled back is there, or what came after is not")
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestAWatchEndsAtTheFirstChangeOfItsKeyAndOfNoOther(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	ctx := context.Background()
	node := s.Watch(ctx, state.Key{Table: state.TableAllocs, By: state.ByNode, Value: "n1"})
	other := s.Watch(ctx, state.Key{Table: state.TableAllocs, By: state.ByNode, Value: "n2"}, state.Key{Table: state.TableNodes})
	row := s.Watch(ctx, state.Key{Table: state.TableAllocs, Value: "a1"})
	table := s.Watch(ctx, state.Key{Table: state.TableAllocs})
	summary := s.Watch(ctx, state.Key{Table: state.TableJobSummaries, Value: state.JobKey("default", "web")})
	place(t, s, alloc("a1", 0))
	if !closed(node) || !closed(row) || !closed(table) || !closed(summary) {
		t.Error("a change did not end a watch of it")
	}
	if closed(other) {
		t.Error("a watch of another node ended")
	}
}

func TestAFeedHasEveryChangeInOrderAndSaysWhenItLostSome(t *testing.T) {
	s := state.New()
	feed := s.Subscribe(state.TableAllocs)
	defer feed.Close()
	register(t, s, job("web", 1))
	place(t, s, alloc("a1", 0))
	report(t, s, &model.Allocation{ID: "a1", ClientStatus: "running"})
	b, err := feed.Next(context.Background())
	if err != nil || len(b.Changes) != 2 || b.Resync || b.Index != s.View().Index() {
		t.Fatalf("the batch is %+v, %v", b, err)
	}
	if c := b.Changes[1]; c.Old.(*model.Allocation).ClientStatus != "pending" || c.New.(*model.Allocation).ClientStatus != "running" {
		t.Errorf("the second change is %+v", c)
	}
	for round := range 3 {
		update(t, s, func(tx *state.Tx) error {
			for i := range state.FeedLimit/2 + 1 {
				tx.PlaceAlloc(alloc(fmt.Sprint("x", round, "-", i), 0), 1)
			}
			return nil
		})
	}
	if b, err := feed.Next(context.Background()); err != nil || !b.Resync || b.Index != s.View().Index() {
		t.Errorf("a reader that fell behind was not told: %d changes, index %d, %v", len(b.Changes), b.Index, err)
	} else if len(b.Changes) > 0 {
		t.Errorf("%d changes are held for a reader that has to read everything anew", len(b.Changes))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := feed.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled read returned %v", err)
	}
}

func TestAWatchIsForgottenWithItsContextAndItsContextWithIt(t *testing.T) {
	s := state.New()
	ctx, cancel := context.WithCancel(context.Background())
	for i := range 3 {
		ch := s.Watch(ctx, state.Key{Table: state.TableAllocs})
		place(t, s, alloc(fmt.Sprint("a", i), 0))
		if !closed(ch) {
			t.Fatal("a watch did not end")
		}
	}
	ch := s.Watch(ctx, state.Key{Table: state.TableAllocs})
	cancel()
	deadline := time.Now().Add(time.Minute)
	for s.Watchers() > 0 {
		if time.Now().After(deadline) {
			t.Fatal("a watch outlives its context")
		}
		runtime.Gosched()
	}
	if closed(ch) {
		t.Error("the end of its context ended a watch as a change does")
	}
}

func TestAnAllocThatIsChangedInTheEntryOfItsSuccessorKeepsPointingToIt(t *testing.T) {
	s := state.New()
	register(t, s, job("web", 1))
	place(t, s, alloc("a1", 0))
	update(t, s, func(tx *state.Tx) error {
		next := alloc("a2", 0)
		next.PreviousAllocation = "a1"
		tx.PlaceAlloc(next, 1000)
		return tx.ChangeAlloc(&model.AllocChange{Kind: model.AllocMarkUnknown, AllocID: "a1"}, "e", 1000)
	})
	if a := s.View().AllocByID("a1"); a.NextAllocation != "a2" || a.ClientStatus != model.AllocClientStatusUnknown {
		t.Errorf("next is %q, status %s", a.NextAllocation, a.ClientStatus)
	}
}
