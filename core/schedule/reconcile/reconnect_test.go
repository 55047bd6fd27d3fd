// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

func TestTheAllocThatHasRunLongestStays(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	for name, c := range map[string]struct {
		first, second *time.Time
		loser         string
	}{
		"the original": {ago(time.Hour), ago(time.Minute), "second"},
		"the replacement of a restarted original":     {ago(time.Second), ago(time.Minute), "first"},
		"the original, of two that began at once":     {ago(time.Minute), ago(time.Minute), "second"},
		"the original, if only its start is known":    {ago(time.Second), nil, "second"},
		"the replacement, if only its start is known": {nil, ago(time.Second), "first"},
	} {
		t.Run(name, func(t *testing.T) {
			b, first, second := pair(t, model.ReconcileLongestRunning)
			first.TaskStates["t"].StartedAt, second.TaskStates["t"].StartedAt = c.first, c.second
			expect(t, reconcile.Service(b.Input), "stop "+c.loser+": "+reconcile.DescReconnected)
		})
	}
}

func TestTheAllocWithTheBetterScoreStaysAlsoIfTheJobHasNoDisconnectBlockAnyMore(t *testing.T) {
	for score, loser := range map[float64]string{.7: "second", .6: "second", .5: "first"} {
		b, first, _ := pair(t, "")
		b.Job.TaskGroups[0].Disconnect = nil
		first.Metrics.ScoreMetaData[0].NormScore = score // the replacement has .6
		expect(t, reconcile.Service(b.Input), "stop "+loser+": "+reconcile.DescReconnected)
	}
}

func TestAnOriginalThatIsOutOfReachAgainIsUnknownBesideItsReplacement(t *testing.T) {
	b, _, _ := pair(t, model.ReconcileKeepOriginal)
	b.nodes["n1"].Status = model.NodeStatusDisconnected
	expect(t, reconcile.Service(b.Input), "mark first unknown", "look again in 1h0m0s")
}

func TestOfTwoThatAreWaitedForTheNewestIsUpdated(t *testing.T) {
	b, first, second := pair(t, model.ReconcileKeepOriginal)
	for _, a := range []*model.Allocation{first, second} {
		a.TaskStates = map[string]*model.TaskState{"t": {State: model.TaskStatePending}}
	}
	b.version(env("2"))
	expect(t, reconcile.Service(b.Input), "place j.g[0] v1 after second (update)")
}

func TestWorkThatWasDoneTwiceStaysDone(t *testing.T) {
	b := newBench("batch", 1)
	first, second := b.alloc("first", 0, "n1"), b.alloc("second", 0, "n2")
	first.NextAllocation = "second"
	first.ClientStatus, second.ClientStatus = model.AllocClientStatusComplete, model.AllocClientStatusComplete
	expect(t, reconcile.Service(b.Input))
}

func TestAnAllocFailedWhenItsLastTaskEnded(t *testing.T) {
	at := func(ago time.Duration) *time.Time { at := now.Add(-ago); return &at }
	no := false
	unhealthy := &model.AllocDeploymentStatus{Healthy: &no, Timestamp: now.Add(-time.Hour)}
	tasks := map[string]*model.TaskState{"a": {FinishedAt: at(3 * time.Minute)}, "b": {FinishedAt: at(time.Minute)}, "c": {FinishedAt: at(2 * time.Minute)}, "d": {}}
	for name, c := range map[string]struct {
		alloc model.Allocation
		ago   time.Duration
	}{
		"the last of its tasks":          {model.Allocation{ClientStatus: model.AllocClientStatusFailed, TaskStates: tasks}, time.Minute},
		"though it was unhealthy before": {model.Allocation{ClientStatus: model.AllocClientStatusFailed, TaskStates: tasks, DeploymentStatus: unhealthy}, time.Minute},
		"unhealthy, and it runs":         {model.Allocation{ClientStatus: model.AllocClientStatusRunning, DeploymentStatus: unhealthy}, time.Hour},
		"without a task that has ended":  {model.Allocation{ClientStatus: model.AllocClientStatusFailed, ModifyTime: now.Add(-time.Second).UnixNano()}, time.Second},
	} {
		if got := reconcile.FailedAt(&c.alloc); !got.Equal(now.Add(-c.ago)) {
			t.Errorf("%s: it failed %s ago, not %s", name, now.Sub(got), c.ago)
		}
	}
}

func TestADelayWithoutALimitGrows(t *testing.T) {
	p := &model.ReschedulePolicy{Unlimited: true, Delay: 10 * time.Second, DelayFunction: model.DelayFunctionExponential}
	a := &model.Allocation{ModifyTime: now.UnixNano(), RescheduleTracker: &model.RescheduleTracker{Events: []*model.RescheduleEvent{
		{RescheduleTime: now.Add(-2 * time.Hour).UnixNano()}, {RescheduleTime: now.Add(-time.Hour).UnixNano()},
	}}}
	if got := reconcile.Delay(p, a); got != 40*time.Second {
		t.Errorf("after two attempts the delay is %s", got)
	}
}

// With a limit of attempts all of them are counted; without, the newest tell the delay.
func TestTheHistoryOfFailuresIsAsLongAsItsPolicyNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		policy *model.ReschedulePolicy
		want   int
	}{
		"unlimited": {&model.ReschedulePolicy{Unlimited: true, Delay: time.Second}, 5},
		"limited":   {&model.ReschedulePolicy{Attempts: 9, Interval: time.Hour, Delay: time.Second}, 8},
		"none":      {nil, 5},
	} {
		prev := &model.Allocation{ID: "a", NodeID: "n1", ModifyTime: now.UnixNano()}
		for i := range 8 {
			prev.RescheduleTracker = reconcile.Tracker(c.policy, prev, true, now.Add(time.Duration(i)))
		}
		ev := prev.RescheduleTracker.Events
		if len(ev) != c.want || ev[len(ev)-1].RescheduleTime != now.Add(7).UnixNano() {
			t.Errorf("%s: %d events, not %d, or the newest is lost", name, len(ev), c.want)
		}
		if same := reconcile.Tracker(c.policy, prev, false, now); same != prev.RescheduleTracker {
			t.Errorf("%s: an alloc that did not fail changes the history", name)
		}
	}
}

func TestAReplacementThatMigratesGivesWayToTheOriginal(t *testing.T) {
	b, _, second := pair(t, model.ReconcileKeepReplacement)
	yes := true
	second.DesiredTransition.Migrate = &yes
	expect(t, reconcile.Service(b.Input), "stop second: "+reconcile.DescReconnected)
}

func TestAReplacementThatIsOutdatedGivesWayToAnOriginalThatIsNot(t *testing.T) {
	b, first, _ := pair(t, model.ReconcileKeepReplacement)
	b.version(env("2"))
	first.JobVersion = 1
	expect(t, reconcile.Service(b.Input), "stop second: "+reconcile.DescReconnected)
}

func TestWorkThatWasDoneForAnotherSpecificationKeepsNoPlace(t *testing.T) {
	b := newBench("batch", 1)
	first := b.alloc("first", 0, "n1")
	first.NextAllocation, first.ClientStatus = "second", model.AllocClientStatusComplete
	b.version(env("2"))
	b.alloc("second", 0, "n2")
	expect(t, reconcile.Service(b.Input))
}

// An alloc runs since the last of its tasks that still run was started.
func TestAnAllocHasRunSinceTheLastOfItsTasksWasStarted(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	for name, c := range map[string]struct {
		other *model.TaskState // of the original, whose task t was started an hour ago
		loser string
	}{
		"another task was started earlier":        {&model.TaskState{State: model.TaskStateRunning, StartedAt: ago(2 * time.Hour)}, "second"},
		"another task was started later":          {&model.TaskState{State: model.TaskStateRunning, StartedAt: ago(time.Second)}, "first"},
		"another task was started later, and ran": {&model.TaskState{State: model.TaskStateDead, StartedAt: ago(time.Second)}, "second"},
	} {
		b, first, _ := pair(t, model.ReconcileLongestRunning) // the replacement's was started a minute ago
		first.TaskStates["other"] = c.other
		t.Log(name)
		expect(t, reconcile.Service(b.Input), "stop "+c.loser+": "+reconcile.DescReconnected)
	}
}

func TestTheScoreOfAnAllocIsThatOfItsOwnNode(t *testing.T) {
	b, first, second := pair(t, "")
	first.Metrics.ScoreMetaData = append([]*model.NodeScoreMeta{{NodeID: "n9", NormScore: .9}}, first.Metrics.ScoreMetaData...)
	expect(t, reconcile.Service(b.Input), "stop first: "+reconcile.DescReconnected)
	second.Metrics = nil // it has no score: the first is better
	expect(t, reconcile.Service(b.Input), "stop second: "+reconcile.DescReconnected)
}

func TestInWhichOrderAllocsAreReadDoesNotMatter(t *testing.T) {
	for name, b := range map[string]*bench{
		"rivals": first(pair(t, "")), "canaries": first(promoted(2)), "surplus": func() *bench {
			b := newBench("service", 1)
			b.alloc("a", 0, "n1")
			b.alloc("b", 1, "n2")
			b.alloc("twin", 0, "n3")
			return b
		}(),
	} {
		want := told(reconcile.Service(b.Input))
		slices.Reverse(b.Allocs)
		if got := told(reconcile.Service(b.Input)); !slices.Equal(got, want) {
			t.Errorf("%s: in the other order it does %q, not %q", name, got, want)
		}
	}
}

func first(b *bench, _, _ *model.Allocation) *bench { return b }

func TestWhatIsSaidOfAFailureThatNothingReplaces(t *testing.T) {
	yes := true
	none, again := &model.ReschedulePolicy{}, &model.ReschedulePolicy{Unlimited: true, DelayFunction: model.DelayFunctionConstant}
	const spent = "its reschedule block allows no further attempt"
	for name, c := range map[string]struct {
		kind   string
		policy *model.ReschedulePolicy
		edit   func(*model.Allocation)
		want   string
	}{
		"its attempts are used up":            {"service", none, func(*model.Allocation) {}, spent},
		"it has further attempts":             {"service", again, func(*model.Allocation) {}, ""},
		"of a system job":                     {"system", again, func(*model.Allocation) {}, "system jobs replace it only by a new version"},
		"it is replaced already":              {"service", none, func(a *model.Allocation) { a.NextAllocation = "b" }, ""},
		"somebody forces its replacement":     {"service", none, func(a *model.Allocation) { a.DesiredTransition.ForceReschedule = &yes }, ""},
		"it runs and is to be moved":          {"service", none, func(a *model.Allocation) { a.DesiredTransition.Migrate, a.ClientStatus = &yes, "running" }, ""},
		"it has ended, and was to be moved":   {"service", none, func(a *model.Allocation) { a.DesiredTransition.Migrate = &yes }, spent},
		"of a group that the job has no more": {"service", none, func(a *model.Allocation) { a.TaskGroup = "old" }, ""},
	} {
		b := newBench(c.kind, 1)
		b.Job.TaskGroups[0].ReschedulePolicy = c.policy
		a := b.failed("a", time.Second)
		c.edit(a)
		if got := reconcile.Irreplaceable(b.Job, a); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

func TestTheHistoryOfAFailureSaysHowLongItsReplacementWaited(t *testing.T) {
	prev := &model.Allocation{ID: "a", NodeID: "n1"}
	p := &model.ReschedulePolicy{Unlimited: true, Delay: 10 * time.Second, DelayFunction: model.DelayFunctionConstant}
	for policy, want := range map[*model.ReschedulePolicy]time.Duration{p: 10 * time.Second, nil: 0} {
		e := reconcile.Tracker(policy, prev, true, now).Events
		if len(e) != 1 || e[0].Delay != want || e[0].PrevAllocID != "a" || e[0].PrevNodeID != "n1" {
			t.Errorf("the history is %+v", e)
		}
	}
	if got := reconcile.Tracker(p, nil, true, now); got != nil {
		t.Errorf("an alloc that replaces none has the history %+v", got)
	}
}

// A limit includes its last moment: an attempt as old as the interval does not count any more, and
// an alloc that ran as long as the largest delay is not yet one that ran long.
func TestTheLimitsOfAReschedulePolicyAreExact(t *testing.T) {
	a := func(ago time.Duration) *model.Allocation {
		return &model.Allocation{ModifyTime: now.UnixNano(), RescheduleTracker: &model.RescheduleTracker{Events: []*model.RescheduleEvent{{RescheduleTime: now.Add(-ago).UnixNano()}}}}
	}
	p := &model.ReschedulePolicy{Attempts: 1, Interval: time.Hour, Delay: time.Second, MaxDelay: time.Minute, DelayFunction: model.DelayFunctionExponential}
	for ago, want := range map[time.Duration]bool{time.Hour - 1: false, time.Hour: true} {
		if _, ok := reconcile.NextReschedule(p, a(ago)); ok != want {
			t.Errorf("with an attempt %s ago there is another one: %t", ago, ok)
		}
	}
	for ago, want := range map[time.Duration]time.Duration{time.Minute: 2 * time.Second, time.Minute + 1: time.Second} {
		if got := reconcile.Delay(p, a(ago)); got != want {
			t.Errorf("after %s the delay is %s", ago, got)
		}
	}
}
