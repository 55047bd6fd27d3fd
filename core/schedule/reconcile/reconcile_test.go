// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bench is the input of a reconciliation of one job of one group.
type bench struct {
	reconcile.Input
	nodes      map[string]*model.Node
	infeasible map[string]bool
	jobs       []*model.Job
	ids        int
}

func newBench(kind string, count int) *bench {
	job := &model.Job{ID: "j", Namespace: "default", Type: kind, CreateIndex: 1, TaskGroups: []*model.TaskGroup{{
		Name: "g", Count: count, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Env: map[string]string{}}},
	}}}
	b := &bench{nodes: map[string]*model.Node{}, infeasible: map[string]bool{}, jobs: []*model.Job{job}}
	for _, id := range []string{"n1", "n2", "n3"} {
		b.nodes[id] = &model.Node{ID: id, Status: model.NodeStatusReady, SchedulingEligibility: "eligible"}
	}
	b.Input = reconcile.Input{
		Job: job, Now: now, NewID: func() string { b.ids++; return fmt.Sprint("id", b.ids) },
		Version: func(version uint64) *model.Job {
			if int(version) < len(b.jobs) {
				return b.jobs[version]
			}
			return nil
		},
		Node:     func(id string) *model.Node { return b.nodes[id] },
		Feasible: func(_ *model.TaskGroup, n *model.Node) bool { return n != nil && !b.infeasible[n.ID] },
		MayStay:  func(_ *model.TaskGroup, n *model.Node) bool { return n != nil && !b.infeasible[n.ID] },
	}
	return b
}

// version registers another version of the job.
func (b *bench) version(edit func(*model.Job)) {
	j := b.Job.Copy()
	j.Version++
	edit(j)
	b.Job, b.jobs = j, append(b.jobs, j)
}

func env(value string) func(*model.Job) {
	return func(j *model.Job) { j.TaskGroups[0].Tasks[0].Env["V"] = value }
}

// alloc adds an alloc of the newest version that runs.
func (b *bench) alloc(id string, index int, node string) *model.Allocation {
	a := &model.Allocation{
		ID: id, Name: model.AllocName("j", "g", index), JobID: "j", Namespace: "default", TaskGroup: "g", NodeID: node, JobVersion: b.Job.Version,
		DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning, CreateIndex: uint64(len(b.Allocs) + 1),
	}
	b.Allocs = append(b.Allocs, a)
	return a
}

func (b *bench) nodeList() []*model.Node {
	return []*model.Node{b.nodes["n1"], b.nodes["n2"], b.nodes["n3"]}
}

// told says in words what a result does.
func told(r *reconcile.Result) []string {
	var out []string
	for _, s := range r.Stop {
		out = append(out, "stop "+s.Alloc.ID+": "+s.Description)
	}
	for i := range r.Changed {
		switch c := &r.Changed[i]; c.Kind {
		case model.AllocUpdateInPlace:
			out = append(out, fmt.Sprintf("update %s to v%d in place", c.AllocID, c.JobVersion))
		case model.AllocMarkUnknown:
			out = append(out, "mark "+c.AllocID+" unknown")
		default:
			out = append(out, "look at "+c.AllocID+" again")
		}
	}
	for _, p := range r.Place {
		line := fmt.Sprintf("place %s v%d", p.Name, p.Job.Version)
		if p.Node != nil {
			line += " on " + p.Node.ID
		}
		if p.Previous != nil {
			line += " after " + p.Previous.ID
		}
		if p.Update {
			line += " (update)"
		}
		out = append(out, line)
	}
	for _, f := range r.FollowUps {
		out = append(out, fmt.Sprintf("look again in %s", f.WaitUntil.Sub(now)))
	}
	slices.Sort(out)
	return out
}

func expect(t *testing.T, r *reconcile.Result, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := told(r); !slices.Equal(got, want) {
		t.Errorf("it does\n%q\nnot\n%q", got, want)
	}
}

func TestWhatIsMissingIsPlacedUnderTheLowestFreeNames(t *testing.T) {
	b := newBench("service", 3)
	b.alloc("a", 1, "n1")
	expect(t, reconcile.Service(b.Input), "place j.g[0] v0", "place j.g[2] v0")
}

func TestAnEqualClusterNeedsNothing(t *testing.T) {
	b := newBench("service", 2)
	b.alloc("a", 0, "n1")
	b.alloc("b", 1, "n2")
	expect(t, reconcile.Service(b.Input))
}

func TestSurplusGoesFromTheHighestName(t *testing.T) {
	b := newBench("service", 1)
	b.alloc("a", 0, "n1")
	b.alloc("b", 1, "n2")
	b.alloc("c", 2, "n3")
	expect(t, reconcile.Service(b.Input), "stop b: "+reconcile.DescNotNeeded, "stop c: "+reconcile.DescNotNeeded)
}

func TestAStoppedOrPurgedJobStopsWhatLivesAndNothingElse(t *testing.T) {
	b := newBench("service", 2)
	b.alloc("a", 0, "n1")
	b.alloc("done", 1, "n1").ClientStatus = model.AllocClientStatusComplete
	b.version(func(j *model.Job) { j.Stop = true })
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescNotNeeded)
	b.Job = nil
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescNotNeeded)
}

func TestAGroupThatTheJobHasNoMoreIsStopped(t *testing.T) {
	b := newBench("service", 1)
	b.alloc("a", 0, "n1")
	b.alloc("b", 0, "n2").TaskGroup = "old"
	expect(t, reconcile.Service(b.Input), "stop b: "+reconcile.DescNotNeeded)
}

func TestOnlyWhatTasksWereStartedWithNeedsNewAllocs(t *testing.T) {
	b := newBench("service", 1)
	b.alloc("a", 0, "n1")
	b.version(func(j *model.Job) {
		j.Priority, j.TaskGroups[0].RestartPolicy = 80, &model.RestartPolicy{Attempts: 9}
		j.TaskGroups[0].Constraints = []*model.Constraint{{LTarget: "a", RTarget: "b", Operand: "="}}
		j.TaskGroups[0].Tasks[0].KillTimeout, j.TaskGroups[0].Tasks[0].ShutdownDelay = time.Minute, time.Second
	})
	expect(t, reconcile.Service(b.Input), "update a to v1 in place")
	b.infeasible["n1"] = true // the new constraint refuses its node
	expect(t, reconcile.Service(b.Input), "place j.g[0] v1 after a (update)")
	b.infeasible["n1"] = false
	b.version(env("2"))
	expect(t, reconcile.Service(b.Input), "place j.g[0] v2 after a (update)")
}

func TestALostNodeIsReplacedAndItsAllocsAreLost(t *testing.T) {
	b := newBench("service", 2)
	b.alloc("a", 0, "n1")
	b.alloc("b", 1, "n2")
	b.nodes["n1"].Status = model.NodeStatusDown
	r := reconcile.Service(b.Input)
	expect(t, r, "stop a: "+reconcile.DescLost, "place j.g[0] v0 after a")
	if r.Stop[0].ClientStatus != model.AllocClientStatusLost {
		t.Errorf("the client status is %q", r.Stop[0].ClientStatus)
	}
	delete(b.nodes, "n2") // purged
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescLost, "place j.g[0] v0 after a", "stop b: "+reconcile.DescLost, "place j.g[1] v0 after b")
}

func TestADrainMovesAllocs(t *testing.T) {
	b := newBench("service", 1)
	yes := true
	b.alloc("a", 0, "n1").DesiredTransition.Migrate = &yes
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescMigrating, "place j.g[0] v0 after a")
}

// failed adds an alloc that failed some time ago.
func (b *bench) failed(id string, ago time.Duration) *model.Allocation {
	a := b.alloc(id, 0, "n1")
	a.ClientStatus, a.ModifyTime = model.AllocClientStatusFailed, now.Add(-ago).UnixNano()
	return a
}

func TestAFailureIsReplacedByItsPolicy(t *testing.T) {
	b := newBench("service", 1)
	b.Job.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: model.DelayFunctionConstant}
	a := b.failed("a", 40*time.Second)
	r := reconcile.Service(b.Input)
	expect(t, r, "look at a again", "look again in 20s")
	if r.Changed[0].FollowupEvalID != r.FollowUps[0].ID {
		t.Error("the alloc does not name the evaluation to come")
	}
	a.FollowupEvalID = "x"
	expect(t, reconcile.Service(b.Input)) // it is known already
	b.Now = now.Add(time.Minute)
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescRescheduled, "place j.g[0] v0 after a")
}

func TestWithoutAttemptsAFailureKeepsItsPlaceUntilSomebodyForcesIt(t *testing.T) {
	b := newBench("service", 1)
	a := b.failed("a", time.Hour)
	expect(t, reconcile.Service(b.Input))
	yes := true
	a.DesiredTransition.ForceReschedule = &yes
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescRescheduled, "place j.g[0] v0 after a")
	a.NextAllocation = "b"
	b.alloc("b", 0, "n2")
	expect(t, reconcile.Service(b.Input)) // once
}

func TestAForcedRescheduleWaitsForNoDeployment(t *testing.T) {
	b := newBench("service", 1)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1}
	b.Job.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, DelayFunction: model.DelayFunctionConstant}
	b.Deployment = &model.Deployment{ID: "d", JobID: "j", JobCreateIndex: 1, Status: model.DeploymentStatusRunning, TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 1}}}
	a := b.failed("a", time.Hour)
	a.DeploymentID = "d"
	expect(t, reconcile.Service(b.Input)) // the deployment fails with it
	yes := true
	a.DesiredTransition.ForceReschedule = &yes
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescRescheduled, "place j.g[0] v0 after a")
}

func TestBatchWorkThatIsDoneStaysDoneUntilItsSpecificationChanges(t *testing.T) {
	b := newBench("batch", 2)
	b.alloc("a", 0, "n1").ClientStatus = model.AllocClientStatusComplete
	b.alloc("b", 1, "n1")
	expect(t, reconcile.Service(b.Input))
	b.version(func(j *model.Job) { j.Priority = 70 })
	expect(t, reconcile.Service(b.Input), "update b to v1 in place")
	b.version(env("2"))
	expect(t, reconcile.Service(b.Input), "place j.g[0] v2", "place j.g[1] v2 after b (update)")
}

func TestSysbatchRunsOncePerNodeToItsEnd(t *testing.T) {
	b := newBench("sysbatch", 1)
	b.alloc("done", 0, "n1").ClientStatus = model.AllocClientStatusComplete
	b.alloc("bad", 0, "n2").ClientStatus = model.AllocClientStatusFailed
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v0 on n3")
	b.version(env("2"))
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v1 on n1 after done", "place j.g[0] v1 on n2 after bad", "place j.g[0] v1 on n3")
}

func TestASystemAllocThatEndedIsStartedAgain(t *testing.T) {
	b := newBench("system", 1)
	b.alloc("a", 0, "n1").ClientStatus = model.AllocClientStatusComplete
	b.alloc("b", 0, "n2")
	b.alloc("c", 0, "n3")
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v0 on n1 after a")
}

func TestASystemAllocThatFailedStaysFailedUntilTheJobOrItsNodeChanges(t *testing.T) {
	fresh := func() (*bench, *model.Allocation) {
		b := newBench("system", 1)
		a := b.alloc("a", 0, "n1")
		a.ClientStatus = model.AllocClientStatusFailed
		b.alloc("b", 0, "n2")
		b.alloc("c", 0, "n3")
		return b, a
	}
	b, a := fresh()
	expect(t, reconcile.System(b.Input, b.nodeList()))
	n := *b.nodes["n1"]
	b.nodes["n1"] = &n
	n.Status = model.NodeStatusInit // its agent was started again
	expect(t, reconcile.System(b.Input, b.nodeList()[1:]))
	n.Status = model.NodeStatusReady
	expect(t, reconcile.System(b.Input, b.nodeList()))
	n.Status = model.NodeStatusDown
	expect(t, reconcile.System(b.Input, b.nodeList()[1:]), "stop a: "+reconcile.DescNotNeeded)
	a.DesiredStatus, n.Status = model.AllocDesiredStatusStop, model.NodeStatusReady
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v0 on n1")

	b, a = fresh()
	yes := true
	a.DesiredTransition.ForceReschedule = &yes
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v0 on n1 after a")

	b, _ = fresh()
	b.version(func(j *model.Job) { j.TaskGroups[0].RestartPolicy = &model.RestartPolicy{Attempts: 3} })
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v1 on n1 after a", "update b to v1 in place", "update c to v1 in place")
}

func TestASystemRollOutIsNotDoneWhileOneOfItFailed(t *testing.T) {
	b := rollout(t)
	b.Deployment = reconcile.System(b.Input, b.nodeList()).Deployment
	b.Allocs = nil
	a := b.alloc("b1", 0, "n1")
	a.DeploymentID, a.ClientStatus = b.Deployment.ID, model.AllocClientStatusFailed
	if r := reconcile.System(b.Input, b.nodeList()[:1]); len(r.DeploymentUpdates) != 0 || len(r.Place) != 0 {
		t.Errorf("updates of the deployment: %+v, %d placed", r.DeploymentUpdates, len(r.Place))
	}
}

func TestOnANodeThatTakesNoWorkASystemAllocKeepsItsVersion(t *testing.T) {
	for name, edit := range map[string]func(*model.Job){"destructive": env("2"), "in place": func(j *model.Job) { j.TaskGroups[0].RestartPolicy = &model.RestartPolicy{} }} {
		b := newBench("system", 1)
		b.alloc("a", 0, "n1")
		b.nodes["n1"].SchedulingEligibility = "ineligible"
		b.version(edit)
		if got := told(reconcile.System(b.Input, nil)); len(got) != 0 {
			t.Errorf("%s: it does %q", name, got)
		}
		b.nodes["n1"].SchedulingEligibility = "eligible"
		if got := told(reconcile.System(b.Input, b.nodeList()[:1])); len(got) != 1 {
			t.Errorf("%s, when the node takes work again: it does %q", name, got)
		}
	}
}

func TestNothingOfAPurgedJobCountsForTheNextOfItsName(t *testing.T) {
	for _, kind := range []string{"service", "batch", "system", "sysbatch"} {
		b := newBench(kind, 1)
		b.alloc("lives", 0, "n1")
		b.failed("failed", time.Second)
		b.alloc("done", 0, "n1").ClientStatus = model.AllocClientStatusComplete
		j := b.Job.Copy()
		j.CreateIndex = 100
		b.Job, b.jobs = j, []*model.Job{j}
		want := []string{"stop lives: " + reconcile.DescNotNeeded, "stop failed: " + reconcile.DescNotNeeded}
		r := reconcile.Service(b.Input)
		if kind == "system" || kind == "sysbatch" {
			r = reconcile.System(b.Input, b.nodeList()[:1])
			want = append(want, "place j.g[0] v0 on n1")
		} else {
			want = append(want, "place j.g[0] v0")
		}
		expect(t, r, want...)
	}
}

func TestSystemAllocsLeaveNodesThatAreNoMoreFeasible(t *testing.T) {
	b := newBench("system", 1)
	for i, n := range []string{"n1", "n2", "n3"} {
		b.alloc(fmt.Sprint("a", i+1), 0, n)
	}
	b.infeasible["n2"] = true
	b.nodes["n3"].Status = model.NodeStatusDown
	expect(t, reconcile.System(b.Input, b.nodeList()[:2]), "stop a2: "+reconcile.DescNotNeeded, "stop a3: "+reconcile.DescLost)
	b.version(func(j *model.Job) { j.TaskGroups[0].Count = 0 })
	expect(t, reconcile.System(b.Input, b.nodeList()[:2]), "stop a1: "+reconcile.DescNotNeeded, "stop a2: "+reconcile.DescNotNeeded, "stop a3: "+reconcile.DescNotNeeded)
}

func TestGroupsThatASystemJobHasNoMoreAreStoppedInTheSameOrderEachTime(t *testing.T) {
	for range 20 {
		b := newBench("system", 1)
		for i, g := range []string{"z", "a", "m"} {
			b.alloc(g, 0, fmt.Sprint("n", i+1)).TaskGroup = g
		}
		r := reconcile.System(b.Input, nil)
		var got []string
		for _, s := range r.Stop {
			got = append(got, s.Alloc.ID)
		}
		if !slices.Equal(got, []string{"a", "m", "z"}) {
			t.Fatalf("stopped in the order %q", got)
		}
	}
}

// pair is an alloc that is back from a node that was out of reach, and its replacement.
func pair(t *testing.T, by string) (*bench, *model.Allocation, *model.Allocation) {
	t.Helper()
	b := newBench("service", 1)
	b.Job.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour, Reconcile: by}
	first, second := b.alloc("first", 0, "n1"), b.alloc("second", 0, "n2")
	first.NextAllocation, second.PreviousAllocation = "second", "first"
	started := func(a *model.Allocation, ago time.Duration) {
		at := now.Add(-ago)
		a.TaskStates = map[string]*model.TaskState{"t": {State: model.TaskStateRunning, StartedAt: &at}}
	}
	started(first, time.Hour)
	started(second, time.Minute)
	score := func(a *model.Allocation, s float64) {
		a.Metrics = &model.AllocMetric{ScoreMetaData: []*model.NodeScoreMeta{{NodeID: a.NodeID, NormScore: s}}}
	}
	score(first, .4)
	score(second, .6)
	return b, first, second
}

func TestTheDisconnectBlockSaysWhichAllocStays(t *testing.T) {
	for by, loser := range map[string]string{
		"": "first", model.ReconcileBestScore: "first", model.ReconcileKeepOriginal: "second",
		model.ReconcileKeepReplacement: "first", model.ReconcileLongestRunning: "second",
	} {
		b, _, _ := pair(t, by)
		t.Run(by, func(t *testing.T) {
			expect(t, reconcile.Service(b.Input), "stop "+loser+": "+reconcile.DescReconnected)
		})
	}
}

func TestAReplacementThatIsUnhealthyGivesWay(t *testing.T) {
	b, _, second := pair(t, model.ReconcileKeepReplacement)
	no := false
	second.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &no}
	expect(t, reconcile.Service(b.Input), "stop second: "+reconcile.DescReconnected)
}

func TestAnOutdatedAllocThatIsBackGivesWay(t *testing.T) {
	b, first, second := pair(t, model.ReconcileKeepOriginal)
	b.version(env("2"))
	second.JobVersion = 1
	_ = first
	expect(t, reconcile.Service(b.Input), "stop first: "+reconcile.DescReconnected)
}

func TestTheChainOfReplacementsIsFollowed(t *testing.T) {
	b, _, second := pair(t, model.ReconcileKeepOriginal)
	second.ClientStatus, second.NextAllocation = model.AllocClientStatusFailed, "third"
	b.alloc("third", 0, "n3").PreviousAllocation = "second"
	expect(t, reconcile.Service(b.Input), "stop third: "+reconcile.DescReconnected)
}

func TestDelaysGrowAsTheirFunctionSaysAndStartAnewAfterALongLife(t *testing.T) {
	history := func(n int) *model.Allocation {
		a := &model.Allocation{ModifyTime: now.UnixNano()}
		if n > 0 {
			a.RescheduleTracker = &model.RescheduleTracker{}
		}
		for range n {
			a.RescheduleTracker.Events = append(a.RescheduleTracker.Events, &model.RescheduleEvent{RescheduleTime: now.Add(-time.Second).UnixNano()})
		}
		return a
	}
	for f, want := range map[string][]time.Duration{
		model.DelayFunctionConstant:    {10, 10, 10, 10, 10},
		model.DelayFunctionExponential: {10, 20, 40, 60, 60},
		model.DelayFunctionFibonacci:   {10, 10, 20, 30, 50},
	} {
		p := &model.ReschedulePolicy{Unlimited: true, Delay: 10 * time.Second, MaxDelay: time.Minute, DelayFunction: f}
		for n, seconds := range want {
			if got := reconcile.Delay(p, history(n)); got != seconds*time.Second {
				t.Errorf("%s, %d attempts: %s, not %ds", f, n, got, seconds)
			}
		}
	}
	old := history(4)
	for _, e := range old.RescheduleTracker.Events {
		e.RescheduleTime = now.Add(-time.Hour).UnixNano()
	}
	p := &model.ReschedulePolicy{Unlimited: true, Delay: 10 * time.Second, MaxDelay: time.Minute, DelayFunction: model.DelayFunctionExponential}
	if got := reconcile.Delay(p, old); got != 10*time.Second {
		t.Errorf("after an hour of running the delay is %s", got)
	}
}

func TestTheClockOfANodeDoesNotDelayAReplacement(t *testing.T) {
	p := &model.ReschedulePolicy{Unlimited: true, Delay: 10 * time.Second, DelayFunction: model.DelayFunctionConstant}
	for _, wrong := range []time.Duration{0, time.Hour, -time.Hour} {
		ended := now.Add(wrong)
		a := &model.Allocation{
			TaskStates:  map[string]*model.TaskState{"t": {FinishedAt: &ended}},
			AllocStates: []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusFailed, Time: now}},
		}
		if at, _ := reconcile.NextReschedule(p, a); !at.Equal(now.Add(10 * time.Second)) {
			t.Errorf("with a clock that is wrong by %s it is replaced after %s", wrong, at.Sub(now))
		}
	}
}

func TestAttemptsCountWithinTheirInterval(t *testing.T) {
	p := &model.ReschedulePolicy{Attempts: 2, Interval: time.Hour, DelayFunction: model.DelayFunctionConstant}
	a := &model.Allocation{ModifyTime: now.UnixNano(), RescheduleTracker: &model.RescheduleTracker{}}
	for ago, want := range map[time.Duration]bool{50 * time.Minute: false, 70 * time.Minute: true} {
		a.RescheduleTracker.Events = []*model.RescheduleEvent{{RescheduleTime: now.Add(-ago).UnixNano()}, {RescheduleTime: now.Add(-time.Minute).UnixNano()}}
		if _, ok := reconcile.NextReschedule(p, a); ok != want {
			t.Errorf("an attempt of %s ago counts: %v", ago, !want == ok)
		}
	}
}

// rollout is a system job with an update block of which version 1 is being deployed.
func rollout(t *testing.T) *bench {
	t.Helper()
	b := newBench("system", 1)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1}
	for i, n := range []string{"n3", "n1", "n2"} {
		b.alloc(fmt.Sprint("a", i), 0, n)
	}
	b.version(env("2"))
	return b
}

func TestASystemJobRollsOutFromNodeToNode(t *testing.T) {
	b := rollout(t)
	r := reconcile.System(b.Input, b.nodeList())
	expect(t, r, "place j.g[0] v1 on n1 after a1 (update)")
	if d := r.Deployment; d == nil || d.TaskGroups["g"].DesiredTotal != 3 || d.Status != model.DeploymentStatusRunning || r.Place[0].Deployment != d.ID {
		t.Fatalf("the deployment is %+v", d)
	}
	b.Deployment = r.Deployment
	b.Allocs[1].DesiredStatus = model.AllocDesiredStatusStop
	first := b.alloc("b1", 0, "n1")
	first.DeploymentID = b.Deployment.ID
	expect(t, reconcile.System(b.Input, b.nodeList())) // its health is not known yet
	no, yes := false, true
	first.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &no}
	expect(t, reconcile.System(b.Input, b.nodeList()))
	first.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &yes}
	expect(t, reconcile.System(b.Input, b.nodeList()), "place j.g[0] v1 on n2 after a2 (update)")
}

func TestASystemRollOutIsDoneWhenWhatIsLeftIsNewAndHealthy(t *testing.T) {
	b := rollout(t)
	b.Deployment = reconcile.System(b.Input, b.nodeList()).Deployment
	b.Allocs = nil
	yes := true
	a := b.alloc("b1", 0, "n1")
	a.DeploymentID, a.DeploymentStatus = b.Deployment.ID, &model.AllocDeploymentStatus{Healthy: &yes}
	// Three nodes were wanted; two of them have gone.
	r := reconcile.System(b.Input, b.nodeList()[:1])
	if len(r.DeploymentUpdates) != 1 || r.DeploymentUpdates[0].Status != model.DeploymentStatusSuccessful {
		t.Errorf("updates of the deployment: %+v", r.DeploymentUpdates)
	}
	a.DeploymentStatus = nil
	if r := reconcile.System(b.Input, b.nodeList()[:1]); len(r.DeploymentUpdates) != 0 {
		t.Errorf("done without health: %+v", r.DeploymentUpdates[0])
	}
}

func TestASystemJobWithoutUpdateBlockIsDeployedAtOnce(t *testing.T) {
	b := newBench("system", 1)
	for i, n := range []string{"n1", "n2", "n3"} {
		b.alloc(fmt.Sprint("a", i), 0, n)
	}
	if r := reconcile.System(b.Input, b.nodeList()); r.Deployment != nil {
		t.Errorf("a version that runs already is deployed: %+v", r.Deployment)
	}
	b.version(env("2"))
	r := reconcile.System(b.Input, b.nodeList())
	if len(r.Place) != 3 || r.Deployment == nil || r.Deployment.Status != model.DeploymentStatusSuccessful || r.Place[0].Deployment != "" {
		t.Errorf("%q, deployment %+v", told(r), r.Deployment)
	}
}

func TestANewVersionOrAStopEndsTheRollOutOfASystemJob(t *testing.T) {
	for name, change := range map[string]func(*model.Job){"version": env("3"), "stop": func(j *model.Job) { j.Stop = true }} {
		b := rollout(t)
		b.Deployment = reconcile.System(b.Input, b.nodeList()).Deployment
		b.version(change)
		r := reconcile.System(b.Input, b.nodeList())
		if len(r.DeploymentUpdates) != 1 || r.DeploymentUpdates[0].Status != model.DeploymentStatusCancelled {
			t.Errorf("%s: updates of the deployment: %+v", name, r.DeploymentUpdates)
		}
	}
}

func TestAFailureOfAVersionThatWasGivenUpHoldsNoPlace(t *testing.T) {
	same := func(*model.Job) {}
	bad := env("bad")
	for name, c := range map[string]struct {
		versions []func(*model.Job)
		pruned   bool // what lies between is not kept any more
		want     []string
	}{
		"unchanged":        {versions: []func(*model.Job){same}},
		"changed and back": {versions: []func(*model.Job){bad, env("")}, want: []string{"place j.g[0] v2"}},
		"changed":          {versions: []func(*model.Job){bad}, want: []string{"place j.g[0] v1"}},
		"stopped in between": {versions: []func(*model.Job){
			func(j *model.Job) { j.Stop = true }, func(j *model.Job) { j.Stop = false }}, want: []string{"place j.g[0] v2"}},
		"nobody knows": {versions: []func(*model.Job){bad, env("")}, pruned: true},
	} {
		b := newBench("service", 1)
		env("")(b.Job)
		b.failed("a", time.Second)
		for _, edit := range c.versions {
			b.version(edit)
		}
		if c.pruned {
			b.jobs[1] = nil
		}
		if got := told(reconcile.Service(b.Input)); !slices.Equal(got, c.want) {
			t.Errorf("%s: it does %q, not %q", name, got, c.want)
		}
	}
}

func TestNoFailureOutlivesAStoppedOrPurgedJob(t *testing.T) {
	b := newBench("service", 1)
	b.failed("a", time.Second)
	b.version(func(j *model.Job) { j.Stop = true })
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescNotNeeded)
	b.Job = nil
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescNotNeeded)
}

func TestASystemJobWithoutAnyNodeHasDeployedNothing(t *testing.T) {
	b := newBench("system", 1)
	if r := reconcile.System(b.Input, nil); r.Deployment != nil {
		t.Errorf("without nodes the deployment is %s", r.Deployment.Status)
	}
}

func TestTwoThatDoNotRunAreBothWaitedFor(t *testing.T) {
	for _, by := range []string{model.ReconcileKeepOriginal, model.ReconcileKeepReplacement, model.ReconcileBestScore, model.ReconcileLongestRunning} {
		b, first, second := pair(t, by)
		for _, a := range []*model.Allocation{first, second} {
			a.TaskStates = map[string]*model.TaskState{"t": {State: model.TaskStatePending}}
		}
		expect(t, reconcile.Service(b.Input))
	}
}

func TestAnOriginalThatDoesNotRunYieldsToAReplacementThatDoes(t *testing.T) {
	for _, by := range []string{model.ReconcileKeepOriginal, model.ReconcileKeepReplacement, model.ReconcileBestScore, model.ReconcileLongestRunning} {
		b, first, _ := pair(t, by)
		first.TaskStates["t"].State = model.TaskStatePending
		expect(t, reconcile.Service(b.Input), "stop first: "+reconcile.DescReconnected)
	}
}

func TestAnOriginalThatMigratesYieldsAtOnce(t *testing.T) {
	b, first, second := pair(t, model.ReconcileKeepOriginal)
	yes := true
	first.DesiredTransition.Migrate = &yes
	second.ClientStatus = model.AllocClientStatusPending
	expect(t, reconcile.Service(b.Input), "stop first: "+reconcile.DescReconnected)
}

func TestNothingIsChosenWhileTheOriginalIsUnknown(t *testing.T) {
	for _, by := range []string{model.ReconcileKeepOriginal, model.ReconcileKeepReplacement, model.ReconcileBestScore, model.ReconcileLongestRunning} {
		b, first, _ := pair(t, by)
		first.ClientStatus = model.AllocClientStatusUnknown
		first.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: now}}
		expect(t, reconcile.Service(b.Input))
	}
}

func TestAReconnectedAllocThatFailsLaterIsReplaced(t *testing.T) {
	b, first, second := pair(t, model.ReconcileKeepOriginal)
	b.Job.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: model.DelayFunctionConstant}
	second.DesiredStatus = model.AllocDesiredStatusStop
	first.ClientStatus, first.TaskStates, first.ModifyTime = model.AllocClientStatusFailed, nil, now.Add(-time.Hour).UnixNano()
	expect(t, reconcile.Service(b.Input), "stop first: "+reconcile.DescRescheduled, "place j.g[0] v0 after first")
}

func TestWhatIsToStopOnANodeThatIsGoneIsLost(t *testing.T) {
	b := newBench("service", 1)
	b.alloc("a", 0, "n1")
	old := b.alloc("old", 0, "n2")
	old.DesiredStatus, old.DesiredDescription = model.AllocDesiredStatusStop, reconcile.DescUpdating
	expect(t, reconcile.Service(b.Input))
	b.nodes["n2"].Status = model.NodeStatusDown
	r := reconcile.Service(b.Input)
	expect(t, r, "stop old: "+reconcile.DescUpdating)
	if r.Stop[0].ClientStatus != model.AllocClientStatusLost {
		t.Errorf("the client status is %q", r.Stop[0].ClientStatus)
	}
}

func TestALostAllocThatIsNotReplacedHoldsItsPlaceUntilSomebodyForcesIt(t *testing.T) {
	b := newBench("service", 1)
	no := false
	b.Job.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour, Replace: &no}
	b.nodes["n1"].Status = model.NodeStatusDown
	a := b.alloc("a", 0, "n1")
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescLost)
	a.DesiredStatus, a.DesiredDescription, a.ClientStatus = model.AllocDesiredStatusStop, reconcile.DescLost, model.AllocClientStatusLost
	for range 2 {
		expect(t, reconcile.Service(b.Input))
	}
	yes := true
	a.DesiredTransition.ForceReschedule = &yes
	expect(t, reconcile.Service(b.Input), "place j.g[0] v0 after a")
}

func TestWhatIsMissingIsPlacedInPartsOfBoundedSize(t *testing.T) {
	b := newBench("service", 1_000_000_000)
	b.Job.TaskGroups = append(b.Job.TaskGroups, &model.TaskGroup{Name: "h", Count: 10})
	r := reconcile.Service(b.Input)
	if len(r.Place) != reconcile.MaxPlacements || r.Deferred["g"] != 1_000_000_000-reconcile.MaxPlacements || r.Deferred["h"] != 10 {
		t.Errorf("%d are placed, %v later", len(r.Place), r.Deferred)
	}
	if r.Updates["g"].Place != 1_000_000_000 {
		t.Errorf("the plan says %d", r.Updates["g"].Place)
	}
}

// canarying returns a bench with an alloc of v0 on n1 and a canary of v1 on n2.
func canarying() (b *bench, canary *model.Allocation) {
	b = newBench(model.JobTypeService, 1)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, Canary: 1, ProgressDeadline: time.Minute}
	b.alloc("old", 0, "n1")
	b.version(env("new"))
	canary = b.alloc("canary", 0, "n2")
	canary.DeploymentID, canary.DeploymentStatus = "d", &model.AllocDeploymentStatus{Canary: true}
	b.Deployment = &model.Deployment{
		ID: "d", JobVersion: 1, JobCreateIndex: 1, Status: model.DeploymentStatusRunning,
		TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 1, DesiredCanaries: 1, PlacedCanaries: []string{"canary"}}},
	}
	return b, canary
}

func TestACanaryThatIsLostIsReplacedAsACanaryAndHoldsNoPlaceOfTheCount(t *testing.T) {
	b, _ := canarying()
	b.nodes["n2"].Status = model.NodeStatusDown
	r := reconcile.Service(b.Input)
	expect(t, r, "stop canary: "+reconcile.DescLost, "place j.g[0] v1 after canary")
	if !r.Place[0].Canary || r.Place[0].Deployment != "d" {
		t.Errorf("it is replaced by %+v", r.Place[0])
	}

	b, _ = canarying()
	b.Allocs = b.Allocs[1:] // and the alloc of the count is missing
	b.nodes["n2"].Status = model.NodeStatusDown
	r = reconcile.Service(b.Input)
	places := 0
	for _, p := range r.Place {
		if !p.Canary {
			places++
		}
	}
	if places != 1 {
		t.Errorf("%d allocs of the count are placed, not 1: %q", places, told(r))
	}
}

func TestACanaryOfAnOlderVersionThatIsLostIsNotReplaced(t *testing.T) {
	b, _ := canarying()
	b.version(env("newest"))
	b.nodes["n2"].Status = model.NodeStatusDown
	r := reconcile.Service(b.Input)
	expect(t, r, "stop canary: "+reconcile.DescNotNeeded, "place j.g[0] v2")
	if p := r.Place[0]; !p.Canary || p.Previous != nil {
		t.Errorf("the new version begins with %+v, not with a canary of its own", p)
	}
}

func TestACanaryThatMustNotBeReplacedHoldsItsPlaceAmongTheCanaries(t *testing.T) {
	no := false
	for _, status := range []string{model.AllocClientStatusRunning, model.AllocClientStatusLost} {
		b, canary := canarying()
		for _, j := range b.jobs {
			j.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Minute, Replace: &no}
		}
		b.nodes["n2"].Status = model.NodeStatusDown
		want := []string{"stop canary: " + reconcile.DescLost}
		if canary.ClientStatus = status; status == model.AllocClientStatusLost {
			canary.DesiredStatus, canary.DesiredDescription, want = model.AllocDesiredStatusStop, reconcile.DescLost, nil
		}
		expect(t, reconcile.Service(b.Input), want...)
	}
}

func TestWhenScaledDownAFailedAllocGivesWayToOneThatRuns(t *testing.T) {
	b := newBench(model.JobTypeService, 1)
	b.alloc("failed", 0, "n1").ClientStatus = model.AllocClientStatusFailed
	b.alloc("runs", 1, "n2")
	expect(t, reconcile.Service(b.Input), "stop failed: "+reconcile.DescNotNeeded)
}

func TestAnAllocThatIsNotReplacedBeginsNoDeployment(t *testing.T) {
	b := newBench(model.JobTypeService, 1)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Minute}
	yes := true
	b.alloc("stays", 0, "n1")
	b.alloc("leaves", 1, "n2").DesiredTransition.Migrate = &yes
	r := reconcile.Service(b.Input)
	expect(t, r, "stop leaves: "+reconcile.DescMigrating)
	if r.Deployment != nil {
		t.Errorf("deployment %+v has no alloc, and so no deadline", r.Deployment)
	}
}

func TestALostAllocWhosePlaceAnotherGotHoldsItNoMoreWhenItsNodeIsGoneAgain(t *testing.T) {
	b := newBench("service", 2)
	no := false
	b.Job.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour, Replace: &no}
	lost := b.alloc("lost", 0, "n1")
	lost.DesiredStatus, lost.DesiredDescription, lost.ClientStatus = model.AllocDesiredStatusStop, reconcile.DescLost, model.AllocClientStatusLost
	b.alloc("other", 1, "n2")
	b.alloc("later", 0, "n3") // placed when n1 was back
	b.nodes["n1"].Status = model.NodeStatusDisconnected
	expect(t, reconcile.Service(b.Input))
}

func TestTheProgressDeadlineBeginsWithTheDeployment(t *testing.T) {
	b := newBench(model.JobTypeService, 1)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Minute}
	d := reconcile.Service(b.Input).Deployment
	if by := d.TaskGroups["g"].RequireProgressBy; !by.Equal(now.Add(time.Minute)) {
		t.Errorf("the deadline is %v: the deployment does not end if there is never room for its alloc", by)
	}
	b.Job.TaskGroups[0].Update.ProgressDeadline = 0
	if by := reconcile.Service(b.Input).Deployment.TaskGroups["g"].RequireProgressBy; !by.IsZero() {
		t.Errorf("without a progress deadline it is %v", by)
	}
}

func TestAJobWhoseDeploymentFoundNoRoomInTimeIsPlacedWhenThereIsRoom(t *testing.T) {
	b := newBench(model.JobTypeService, 1)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Minute}
	d := reconcile.Service(b.Input).Deployment
	d.ID, d.Status = "d", model.DeploymentStatusFailed
	b.Deployment = d
	expect(t, reconcile.Service(b.Input), "place j.g[0] v0")
	d.TaskGroups["g"].PlacedAllocs = 1
	expect(t, reconcile.Service(b.Input)) // one was tried, and it failed
}

func TestAnOutdatedAllocWhoseReplacementIsOutOfReachIsUpdatedOnlyWhenThatIsHeardOfOrLost(t *testing.T) {
	for _, status := range []string{model.AllocClientStatusRunning, model.AllocClientStatusUnknown} {
		b, _, second := pair(t, model.ReconcileKeepOriginal)
		b.version(env("2"))
		b.nodes["n2"].Status = model.NodeStatusDisconnected
		second.ClientStatus = status
		second.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: now}}
		if r := reconcile.Service(b.Input); len(r.Place) > 0 {
			t.Errorf("first has two successors: %q", told(r))
		}
		second.ClientStatus, b.Now = model.AllocClientStatusUnknown, now.Add(time.Hour)
		r := reconcile.Service(b.Input)
		if len(r.Place) != 1 || r.Place[0].Previous.ID != "first" || len(r.Stop) != 1 || r.Stop[0].Alloc != second {
			t.Errorf("when second is lost: %q", told(r))
		}
	}
}

func TestTheReplacementOfALostSystemAllocDependsOnItsEnd(t *testing.T) {
	b := newBench(model.JobTypeSystem, 1)
	b.Job.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Minute}
	late := b.alloc("late", 0, "n1")
	late.ClientStatus = model.AllocClientStatusUnknown
	late.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: now.Add(-time.Hour)}}
	r := reconcile.System(b.Input, []*model.Node{b.nodes["n1"]}) // the node is back
	if len(r.Place) != 1 || r.Place[0].Previous != late {
		t.Errorf("%q: if late reports before it is stopped, it runs beside its replacement", told(r))
	}
}
