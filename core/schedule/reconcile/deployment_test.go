// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// rolling returns a group of two allocs of v0 of which v1, whose deployment has the status, is
// to replace one at a time.
func rolling(status string) *bench {
	b := newBench("service", 2)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, ProgressDeadline: time.Hour}
	b.alloc("a", 0, "n1")
	b.alloc("b", 1, "n2")
	b.version(env("2"))
	b.Deployment = &model.Deployment{
		ID: "d", JobID: "j", Namespace: "default", JobVersion: 1, JobCreateIndex: 1, Status: status,
		TaskGroups: map[string]*model.DeploymentState{"g": {DesiredTotal: 2, ProgressDeadline: time.Hour}},
	}
	return b
}

func TestARollOutThatIsPausedOrHasFailedReplacesAndPlacesNothing(t *testing.T) {
	for status, rolls := range map[string]bool{
		model.DeploymentStatusRunning: true, model.DeploymentStatusPaused: false, model.DeploymentStatusFailed: false,
	} {
		b := rolling(status)
		b.Deployment.TaskGroups["g"].PlacedAllocs = 1
		var want []string
		if rolls {
			want = []string{"place j.g[0] v1 after a (update)"}
		}
		expect(t, reconcile.Service(b.Input), want...)
	}
	b := rolling(model.DeploymentStatusPaused)
	b.Allocs = nil // nothing of it is placed yet, which is no failure
	expect(t, reconcile.Service(b.Input))
}

func TestADeploymentThatIsOverIsJoinedByNothing(t *testing.T) {
	for status, joined := range map[string]string{model.DeploymentStatusRunning: "d", model.DeploymentStatusSuccessful: ""} {
		b := rolling(status)
		b.Allocs = nil
		b.alloc("a", 0, "n1")
		b.alloc("b", 1, "n2")
		b.nodes["n1"].Status = model.NodeStatusDown
		r := reconcile.Service(b.Input)
		expect(t, r, "stop a: "+reconcile.DescLost, "place j.g[0] v1 after a")
		if got := r.Place[0].Deployment; got != joined {
			t.Errorf("what replaces a lost alloc joins %q while the deployment is %s", got, status)
		}
	}
}

func TestADeploymentOfAPurgedJobIsNotTheOneOfTheNextJobOfItsName(t *testing.T) {
	b := rolling(model.DeploymentStatusRunning)
	b.Allocs = nil
	b.Deployment.JobCreateIndex = 0
	r := reconcile.Service(b.Input)
	if r.Deployment == nil || len(r.DeploymentUpdates) != 1 || r.DeploymentUpdates[0].Status != model.DeploymentStatusCancelled {
		t.Errorf("the new deployment is %+v, the old one becomes %+v", r.Deployment, r.DeploymentUpdates)
	}
}

func TestADeploymentIsNotDoneWhileAnAllocIsMissingOrOutdated(t *testing.T) {
	yes := true
	healthy := func(b *bench, ids ...string) {
		for i, id := range ids {
			a := b.alloc(id, i, "n1")
			a.DeploymentID, a.DeploymentStatus = "d", &model.AllocDeploymentStatus{Healthy: &yes}
		}
		g := b.Deployment.TaskGroups["g"]
		g.PlacedAllocs, g.HealthyAllocs = 2, 2 // as many as are wanted have been healthy
	}
	for name, c := range map[string]struct {
		edit func(*bench)
		done bool
	}{
		"all are new and healthy": {func(b *bench) { b.Allocs = nil; healthy(b, "c", "d") }, true},
		"one was stopped since":   {func(b *bench) { b.Allocs = nil; healthy(b, "c") }, false},
		"one is outdated":         {func(b *bench) { b.Allocs = b.Allocs[1:]; healthy(b, "c") }, false},
	} {
		b := rolling(model.DeploymentStatusRunning)
		c.edit(b)
		if got := len(reconcile.Service(b.Input).DeploymentUpdates) > 0; got != c.done {
			t.Errorf("%s: the deployment ends: %t", name, got)
		}
	}
}

func TestADeploymentSaysWhetherSomebodyHasToPromoteIt(t *testing.T) {
	for name, c := range map[string]struct {
		g, h *model.UpdateStrategy
		want string
	}{
		"no canaries":                 {&model.UpdateStrategy{MaxParallel: 1}, &model.UpdateStrategy{MaxParallel: 1}, model.DeploymentStatusDescriptionRunning},
		"canaries":                    {&model.UpdateStrategy{MaxParallel: 1, Canary: 1}, &model.UpdateStrategy{MaxParallel: 1}, model.DeploymentStatusDescriptionRunningNeedsPromotion},
		"they promote themselves":     {&model.UpdateStrategy{MaxParallel: 1, Canary: 1, AutoPromote: true}, &model.UpdateStrategy{MaxParallel: 1}, model.DeploymentStatusDescriptionRunningAutoPromotion},
		"those of one group do so":    {&model.UpdateStrategy{MaxParallel: 1, Canary: 1, AutoPromote: true}, &model.UpdateStrategy{MaxParallel: 1, Canary: 1}, model.DeploymentStatusDescriptionRunningNeedsPromotion},
		"those of both groups do so ": {&model.UpdateStrategy{MaxParallel: 1, Canary: 1, AutoPromote: true}, &model.UpdateStrategy{MaxParallel: 1, Canary: 1, AutoPromote: true}, model.DeploymentStatusDescriptionRunningAutoPromotion},
	} {
		b := newBench("service", 1)
		h := b.Job.TaskGroups[0].Copy()
		h.Name = "h"
		b.Job.TaskGroups = append(b.Job.TaskGroups, h)
		b.alloc("a", 0, "n1")
		of := b.alloc("b", 0, "n1")
		of.TaskGroup, of.Name = "h", model.AllocName("j", "h", 0)
		b.version(func(j *model.Job) {
			for i, u := range []*model.UpdateStrategy{c.g, c.h} {
				j.TaskGroups[i].Update, j.TaskGroups[i].Tasks[0].Env["V"] = u, "2"
			}
		})
		if d := reconcile.Service(b.Input).Deployment; d == nil || d.StatusDescription != c.want {
			t.Errorf("%s: the deployment is %+v", name, d)
		}
	}
}

func TestAGroupWithoutUpdateBlockIsReplacedAtOnceBesideOneThatHasOne(t *testing.T) {
	b := newBench("service", 2)
	h := b.Job.TaskGroups[0].Copy()
	h.Name = "h"
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1}
	b.Job.TaskGroups = append(b.Job.TaskGroups, h)
	for _, g := range []string{"g", "h"} {
		for i := range 2 {
			a := b.alloc(g+string(rune('1'+i)), i, "n1")
			a.TaskGroup, a.Name = g, model.AllocName("j", g, i)
		}
	}
	b.version(func(j *model.Job) {
		for _, tg := range j.TaskGroups {
			tg.Tasks[0].Env["V"] = "2"
		}
	})
	expect(t, reconcile.Service(b.Input), "place j.g[0] v1 after g1 (update)", "place j.h[0] v1 after h1 (update)", "place j.h[1] v1 after h2 (update)")
}

func TestACanaryOfAnOlderVersionStaysOneWhenALaterOneIsPromoted(t *testing.T) {
	b, _, _ := promoted(2)
	former := b.alloc("former", 1, "n3")
	former.JobVersion, former.DeploymentID, former.DeploymentStatus = 0, "former", &model.AllocDeploymentStatus{Canary: true}
	r := reconcile.Service(b.Input)
	for _, s := range r.Stop {
		if s.Alloc == former {
			return
		}
	}
	t.Errorf("the canary of a superseded version is not stopped: %q", told(r))
}

func TestToScaleUpAGroupThatHasACanaryBlockNeedsNoCanary(t *testing.T) {
	b := newBench("service", 1)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 1, Canary: 1}
	b.alloc("a", 0, "n1")
	b.version(func(j *model.Job) { j.TaskGroups[0].Count = 2 })
	r := reconcile.Service(b.Input)
	expect(t, r, "update a to v1 in place", "place j.g[1] v1")
	if r.Place[0].Canary {
		t.Error("what is placed is a canary")
	}
}

func TestNoCanaryIsPlacedWhenNothingOfAnOlderVersionIsLeft(t *testing.T) {
	b, _ := canarying()
	b.Allocs = nil
	r := reconcile.Service(b.Input)
	expect(t, r, "place j.g[0] v1")
	if r.Place[0].Canary {
		t.Error("what is placed is a canary")
	}
}

func TestWhileCanariesWaitALostAllocIsReplacedByItsOwnVersionIfThatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*bench)
		want string
	}{
		"kept":     {func(*bench) {}, "place j.g[0] v0 after old"},
		"not kept": {func(b *bench) { b.jobs[0] = nil }, "place j.g[0] v1 after old"},
	} {
		b, _ := canarying()
		c.edit(b)
		b.nodes["n1"].Status = model.NodeStatusDown
		t.Log(name)
		expect(t, reconcile.Service(b.Input), "stop old: "+reconcile.DescLost, c.want)
	}
}

func TestWhatWasUnhealthyInAFormerRollOutHoldsTheNextOneUpNoMore(t *testing.T) {
	yes, no := true, false
	b := rolling(model.DeploymentStatusRunning)
	b.Job.TaskGroups[0].Update.MaxParallel = 2
	a := b.Allocs[0]
	a.DeploymentID, a.DeploymentStatus, a.DesiredTransition.Migrate = "former", &model.AllocDeploymentStatus{Healthy: &no}, &yes
	expect(t, reconcile.Service(b.Input), "stop a: "+reconcile.DescMigrating, "place j.g[0] v1 after a", "place j.g[1] v1 after b (update)")
}

func TestASurplusThatLeavesAnywayIsStoppedOnce(t *testing.T) {
	yes := true
	b := newBench("service", 0)
	b.alloc("moves", 0, "n1").DesiredTransition.Migrate = &yes
	ended := b.alloc("ended", 1, "n2") // no node had room for its replacement
	ended.DesiredStatus, ended.DesiredDescription = model.AllocDesiredStatusStop, reconcile.DescMigrating
	r := reconcile.Service(b.Input)
	expect(t, r, "stop moves: "+reconcile.DescMigrating)
	if got := r.Updates["g"].Stop; got != 1 {
		t.Errorf("%d are said to stop, not 1", got)
	}
}

func TestOfAJobAndItsPurgedNamesakeOnlyTheAllocsOfTheLatterEnd(t *testing.T) {
	b := newBench("service", 1)
	b.alloc("former", 0, "n1")
	b.alloc("own", 0, "n1").CreateIndex = 101
	j := b.Job.Copy()
	j.CreateIndex = 100
	b.Job, b.jobs = j, []*model.Job{j}
	expect(t, reconcile.Service(b.Input), "stop former: "+reconcile.DescNotNeeded)
}
