// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
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
