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

func TestARunningAllocIsReplacedForItsHealthOnlyInARollOutThatIsUnderWay(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		edit     func(b *bench, a *model.Allocation)
		replaced bool
	}{
		"unhealthy":                    {func(*bench, *model.Allocation) {}, true},
		"healthy":                      {func(_ *bench, a *model.Allocation) { a.DeploymentStatus.Healthy = &yes }, false},
		"not to be rescheduled":        {func(_ *bench, a *model.Allocation) { a.DesiredTransition.Reschedule = nil }, false},
		"replaced already":             {func(_ *bench, a *model.Allocation) { a.NextAllocation = "next" }, false},
		"of another deployment":        {func(_ *bench, a *model.Allocation) { a.DeploymentID = "former" }, false},
		"in a paused one":              {func(b *bench, _ *model.Allocation) { b.Deployment.Status = model.DeploymentStatusPaused }, false},
		"in a deployment that is over": {func(b *bench, _ *model.Allocation) { b.Deployment.Status = model.DeploymentStatusFailed }, false},
		"in one of an older version":   {func(b *bench, _ *model.Allocation) { b.Deployment.JobVersion = 7 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("service", 1)
			tg := b.Job.TaskGroups[0]
			tg.Update = &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Hour}
			tg.ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, DelayFunction: model.DelayFunctionConstant}
			b.Deployment = &model.Deployment{
				ID: "d", JobID: "j", Namespace: "default", JobCreateIndex: 1, Status: model.DeploymentStatusRunning,
				TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 1, ProgressDeadline: time.Hour}},
			}
			a := b.alloc("a", 0, "n1")
			a.DeploymentID, a.DesiredTransition.Reschedule = "d", &yes
			a.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &no, Timestamp: now.Add(-time.Minute)}
			c.edit(b, a)
			if c.replaced {
				expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescUnhealthy, "place j.g[0] v0 after a")
			} else {
				expect(t, reconcile.Service(b.Input))
			}
		})
	}
}

func TestFailuresThatMayBeReplacedSoonAfterOneAnotherShareAnEvaluation(t *testing.T) {
	b := newBench("service", 3)
	b.Job.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: model.DelayFunctionConstant}
	for i, ago := range []time.Duration{10 * time.Second, 7 * time.Second, time.Second} {
		a := b.alloc(string(rune('a'+i)), i, "n1")
		a.ClientStatus, a.ModifyTime = model.AllocClientStatusFailed, now.Add(-ago).UnixNano()
	}
	r := reconcile.Service(b.Input)
	expect(t, r, "look at a again", "look at b again", "look at c again", "look again in 53s", "look again in 59s")
	if r.Changed[0].FollowupEvalID != r.Changed[1].FollowupEvalID || r.Changed[1].FollowupEvalID == r.Changed[2].FollowupEvalID {
		t.Errorf("they name %q, %q and %q", r.Changed[0].FollowupEvalID, r.Changed[1].FollowupEvalID, r.Changed[2].FollowupEvalID)
	}
	b.Allocs[0].ModifyTime = now.Add(-12 * time.Second).UnixNano() // 5 s before the next
	expect(t, reconcile.Service(b.Input), "look at a again", "look at b again", "look at c again", "look again in 53s", "look again in 59s")
}

func TestWhenScaledDownAFailureGoesBeforeWorkThatIsDone(t *testing.T) {
	b := newBench("batch", 1)
	b.alloc("done", 0, "n1").ClientStatus = model.AllocClientStatusComplete
	b.alloc("bad", 1, "n2").ClientStatus = model.AllocClientStatusFailed
	expect(t, reconcile.Service(b.Input), "stop bad: "+reconcile.DescNotNeeded)
}

// To scale a job down is to register a version of it, so what runs is then of an old version.
func TestWhenScaledDownTheSecondAllocOfANameGoesFirst(t *testing.T) {
	scale := func(b *bench) { b.version(func(j *model.Job) { j.TaskGroups[0].Count = 2 }) }
	for name, c := range map[string]struct {
		scale func(*bench)
		kept  []string
	}{
		"by a new version":    {scale, []string{"update a to v1 in place", "update c to v1 in place"}},
		"by the same version": {func(*bench) {}, nil},
	} {
		b := newBench("service", 2)
		b.alloc("a", 0, "n1")
		b.alloc("twin", 0, "n2")
		b.alloc("c", 1, "n3")
		c.scale(b)
		t.Log(name)
		expect(t, reconcile.Service(b.Input), append([]string{"stop twin: " + reconcile.DescNotNeeded}, c.kept...)...)
	}
}

// A canary is no second alloc of the name that it shares with the one that it replaces.
func TestWhenScaledDownThePromotedCanaryStaysAndWhatItReplacesGoes(t *testing.T) {
	b := newBench("service", 4)
	for i, id := range []string{"a", "b", "c"} {
		b.alloc(id, i, "n1")
	}
	b.version(func(j *model.Job) { env("1")(j); j.TaskGroups[0].Count = 2 })
	b.alloc("canary", 0, "n2")
	expect(t, reconcile.Service(b.Input), "place j.g[1] v1 after b (update)", "stop a: "+reconcile.DescNotNeeded, "stop c: "+reconcile.DescNotNeeded)
}

// The names that are left are as many as the count, not fewer: one of each name stays.
func TestWhenScaledDownOneOfEachNameStays(t *testing.T) {
	b := newBench("service", 2)
	b.alloc("a", 0, "n1")
	b.alloc("twin", 0, "n2")
	b.alloc("c", 1, "n3")
	b.alloc("d", 2, "n3")
	expect(t, reconcile.Service(b.Input), "stop d: "+reconcile.DescNotNeeded, "stop twin: "+reconcile.DescNotNeeded)
}

// promoted returns a group of which the alloc old has the older version, and canary, with the
// same name on n2, the new one, which was promoted.
func promoted(count int) (b *bench, old, canary *model.Allocation) {
	yes := true
	b = newBench("service", count)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, Canary: 1}
	old = b.alloc("old", 0, "n1")
	b.version(env("2"))
	canary = b.alloc("canary", 0, "n2")
	canary.DeploymentID, canary.DeploymentStatus = "d", &model.AllocDeploymentStatus{Healthy: &yes, Canary: true}
	b.Deployment = &model.Deployment{
		ID: "d", JobID: "j", Namespace: "default", JobVersion: 1, JobCreateIndex: 1, Status: model.DeploymentStatusRunning,
		TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: count, DesiredCanaries: 1, PlacedCanaries: []string{"canary"}, PlacedAllocs: 1, Promoted: true}},
	}
	return b, old, canary
}

func TestAnOutdatedAllocRunsOnWhileThePromotedCanaryOfItsNameIsOutOfReachAndNotReplaced(t *testing.T) {
	b, _, canary := promoted(1)
	no := false
	b.Job.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour, Replace: &no}
	b.nodes["n2"].Status = model.NodeStatusDisconnected
	expect(t, reconcile.Service(b.Input), "mark canary unknown", "look again in 1h0m0s")
	canary.ClientStatus = model.AllocClientStatusUnknown
	canary.AllocStates = []*model.AllocState{{Field: "ClientStatus", Value: model.AllocClientStatusUnknown, Time: now}}
	expect(t, reconcile.Service(b.Input))
	b.Now = now.Add(time.Hour)
	expect(t, reconcile.Service(b.Input), "stop canary: "+reconcile.DescLost)
	b.Now, b.nodes["n2"].Status, canary.ClientStatus = now, model.NodeStatusReady, model.AllocClientStatusRunning
	expect(t, reconcile.Service(b.Input), "stop old: "+reconcile.DescNotNeeded)
}

func TestTheReplacementOfAnAllocWhoseNameAPromotedCanaryHasGetsAnotherOne(t *testing.T) {
	b, old, _ := promoted(2)
	yes := true
	old.DesiredTransition.Migrate = &yes
	expect(t, reconcile.Service(b.Input), "stop old: "+reconcile.DescMigrating, "place j.g[1] v1 after old")
}

// over makes an alloc one that was stopped to be moved, and for whose replacement no node had room.
func over(a *model.Allocation) {
	a.DesiredStatus, a.DesiredDescription, a.ClientStatus = model.AllocDesiredStatusStop, reconcile.DescMigrating, model.AllocClientStatusComplete
}

func TestWhatHasTakenThePlaceOfAnAllocIsItsReplacement(t *testing.T) {
	b := newBench("service", 3)
	over(b.alloc("a", 0, "n1"))
	b.alloc("later", 0, "n2")
	b.alloc("c", 1, "n2")
	expect(t, reconcile.Service(b.Input), "place j.g[2] v0")
}

func TestOfTheAllocsThatHadAPlaceTheNewestIsReplaced(t *testing.T) {
	b := newBench("service", 2)
	over(b.alloc("a", 0, "n1"))
	over(b.alloc("b", 0, "n1"))
	for range 2 { // in whatever order they are read
		expect(t, reconcile.Service(b.Input), "place j.g[0] v0 after b", "place j.g[1] v0")
		slices.Reverse(b.Allocs)
	}
}

func TestWhatLeftAPlaceThatAnOlderAllocHasIsNotReplaced(t *testing.T) {
	b := newBench("service", 2)
	b.alloc("older", 0, "n1")
	over(b.alloc("newest", 0, "n2"))
	expect(t, reconcile.Service(b.Input), "place j.g[1] v0")
}

func TestACanaryThatMigratesOrIsUnhealthyIsReplacedAsACanary(t *testing.T) {
	yes, no := true, false
	for desc, edit := range map[string]func(*model.Allocation){
		reconcile.DescMigrating: func(a *model.Allocation) { a.DesiredTransition.Migrate = &yes },
		reconcile.DescUnhealthy: func(a *model.Allocation) {
			a.DesiredTransition.Reschedule, a.DeploymentStatus = &yes, &model.AllocDeploymentStatus{Canary: true, Healthy: &no, Timestamp: now.Add(-time.Minute)}
		},
	} {
		b, canary := canarying()
		b.Job.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, DelayFunction: model.DelayFunctionConstant}
		edit(canary)
		r := reconcile.Service(b.Input)
		expect(t, r, "stop canary: "+desc, "place j.g[0] v1 after canary")
		if !r.Place[0].Canary || r.Place[0].Reschedule != (desc == reconcile.DescUnhealthy) {
			t.Errorf("%s: it is replaced by %+v", desc, r.Place[0])
		}
	}
}

func TestTheNameOfAnAllocThatIsReplacedIsNotFree(t *testing.T) {
	b := newBench("service", 2)
	yes := true
	b.alloc("a", 0, "n1").DesiredTransition.Migrate = &yes
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescMigrating, "place j.g[0] v0 after a", "place j.g[1] v0")
}

func TestASecondCanaryHasANameOfItsOwn(t *testing.T) {
	b, _ := canarying()
	b.Job.TaskGroups[0].Update.Canary = 2
	b.Deployment.TaskGroups["g"].DesiredCanaries = 2
	expect(t, reconcile.Service(b.Input), "place j.g[1] v1")
}

func TestWhenScaledDownAnOutdatedAllocGoesBeforeANewOne(t *testing.T) {
	b := newBench("service", 1)
	b.alloc("old", 0, "n1")
	b.version(env("2"))
	b.alloc("new", 1, "n2")
	expect(t, reconcile.Service(b.Input), "stop old: "+reconcile.DescNotNeeded)
}

func TestOnlyTheOutdatedAllocOfTheNameRunsOnForACanaryOutOfReach(t *testing.T) {
	b, _, canary := promoted(2)
	no := false
	for _, j := range b.jobs {
		j.TaskGroups[0].Disconnect = &model.DisconnectStrategy{LostAfter: time.Hour, Replace: &no}
	}
	canary.Name = model.AllocName("j", "g", 1)
	second := b.alloc("second", 1, "n3")
	second.JobVersion = 0
	b.nodes["n2"].Status = model.NodeStatusDisconnected
	expect(t, reconcile.Service(b.Input), "mark canary unknown", "look again in 1h0m0s", "place j.g[0] v1 after old (update)")
}

func TestAFailureIsHeldOnlyByItsOwnDeploymentAndUntilThatSaysOtherwise(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		edit     func(b *bench, a *model.Allocation)
		replaced bool
	}{
		"the deployment fails with it":           {func(*bench, *model.Allocation) {}, false},
		"it is of another deployment":            {func(_ *bench, a *model.Allocation) { a.DeploymentID = "former" }, true},
		"the deployment wants it replaced":       {func(_ *bench, a *model.Allocation) { a.DesiredTransition.Reschedule = &yes }, true},
		"the deployment has a progress deadline": {func(b *bench, _ *model.Allocation) { b.Deployment.TaskGroups["g"].ProgressDeadline = time.Hour }, true},
		"the deployment is over":                 {func(b *bench, _ *model.Allocation) { b.Deployment.Status = model.DeploymentStatusSuccessful }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench("service", 1)
			b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1}
			b.Job.TaskGroups[0].ReschedulePolicy = &model.ReschedulePolicy{Unlimited: true, DelayFunction: model.DelayFunctionConstant}
			b.Deployment = &model.Deployment{ID: "d", JobID: "j", JobCreateIndex: 1, Status: model.DeploymentStatusRunning, TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 1}}}
			a := b.failed("a", time.Hour)
			a.DeploymentID = "d"
			c.edit(b, a)
			var want []string
			if c.replaced {
				want = []string{"stop a: " + reconcile.DescRescheduled, "place j.g[0] v0 after a"}
			}
			expect(t, reconcile.Service(b.Input), want...)
		})
	}
}
