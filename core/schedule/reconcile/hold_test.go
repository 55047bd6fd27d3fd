// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// held returns a group of v1 that waits for the job db, which does not exist, and that is to
// replace two allocs of v0.
func held(status string) (*bench, *neighbours) {
	b := rolling(status)
	b.Job.DependsOn = []*model.Dependency{{Name: "db", Condition: model.DependencyStarted}}
	n := &neighbours{jobs: map[string][]*model.Job{"j": b.jobs}, allocs: b.Allocs}
	b.Depend = n
	return b, n
}

// release lets the group begin.
func (n *neighbours) release() {
	db := &model.Job{ID: "db", Type: "service", TaskGroups: []*model.TaskGroup{{Name: "g"}}}
	n.jobs["db"] = []*model.Job{db}
}

func TestNothingThatRunsIsStoppedForAGroupThatIsHeldBack(t *testing.T) {
	b, n := held(model.DeploymentStatusRunning)
	r := reconcile.Service(b.Input)
	expect(t, r)
	if h := r.Held["g"]; h == nil || h.Allocs != 2 {
		t.Errorf("held back are %+v, not two allocs", h)
	}
	b.nodes["n1"].Status = model.NodeStatusDown // what is lost is replaced by the version that it ran
	r = reconcile.Service(b.Input)
	expect(t, r, "stop a: "+reconcile.DescLost, "place j.g[0] v0 after a")
	if h := r.Held["g"]; h == nil || h.Allocs != 1 {
		t.Errorf("held back are %+v, not one alloc", h)
	}
	b.nodes["n1"].Status = model.NodeStatusReady
	n.release()
	r = reconcile.Service(b.Input)
	expect(t, r, "place j.g[0] v1 after a (update)")
	if len(r.Held) != 0 {
		t.Errorf("%v is held back still", r.Held)
	}
}

func TestWhatIsMissingOfAGroupThatIsHeldBackIsCounted(t *testing.T) {
	b, _ := held(model.DeploymentStatusRunning)
	b.Allocs = nil
	r := reconcile.Service(b.Input)
	expect(t, r)
	if h := r.Held["g"]; h == nil || h.Allocs != 2 {
		t.Errorf("held back are %+v, not two allocs", h)
	}
}

// A roll-out that has stopped holds nothing back: nothing would be placed anyway. One that found
// no room in time is placed when there is room, and so it is held back as well.
func TestAGroupOfARollOutThatHasStoppedIsNotSaidToBeHeldBack(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		placed int
		held   bool
	}{
		"paused":                 {model.DeploymentStatusPaused, 0, false},
		"failed":                 {model.DeploymentStatusFailed, 1, false},
		"there never was a room": {model.DeploymentStatusFailed, 0, true},
	} {
		b, _ := held(c.status)
		b.Allocs = nil
		b.Deployment.TaskGroups["g"].PlacedAllocs = c.placed
		r := reconcile.Service(b.Input)
		expect(t, r)
		if got := r.Held["g"] != nil; got != c.held {
			t.Errorf("%s: it is said to be held back: %t", name, got)
		}
	}
}

func TestCanariesAreHeldBackToo(t *testing.T) {
	b, n := held(model.DeploymentStatusRunning)
	b.Job.TaskGroups[0].Update.Canary = 1
	b.Deployment.TaskGroups["g"].DesiredCanaries = 1
	r := reconcile.Service(b.Input)
	expect(t, r)
	if h := r.Held["g"]; h == nil || h.Allocs != 1 {
		t.Errorf("held back are %+v, not one canary", h)
	}
	n.release()
	expect(t, reconcile.Service(b.Input), "place j.g[0] v1")
}

func TestTheProgressDeadlineOfAGroupBeginsWhenItIsNoMoreHeldBack(t *testing.T) {
	b, _ := held(model.DeploymentStatusRunning)
	b.Deployment = nil
	d := reconcile.Service(b.Input).Deployment
	if d == nil || !d.TaskGroups["g"].RequireProgressBy.IsZero() {
		t.Fatalf("while it is held back its deployment is %+v", d)
	}
	for name, c := range map[string]struct {
		edit   func(*bench, *model.DeploymentState)
		begins bool
	}{
		"it waited until now":         {func(*bench, *model.DeploymentState) {}, true},
		"it has no progress deadline": {func(_ *bench, g *model.DeploymentState) { g.ProgressDeadline = 0 }, false},
		"its deadline has begun":      {func(_ *bench, g *model.DeploymentState) { g.RequireProgressBy = now.Add(time.Minute) }, false},
		"one of it was placed":        {func(_ *bench, g *model.DeploymentState) { g.PlacedAllocs = 1 }, false},
		"it is done":                  {func(_ *bench, g *model.DeploymentState) { g.DesiredTotal = 0 }, false},
		"the roll-out is paused":      {func(b *bench, _ *model.DeploymentState) { b.Deployment.Status = model.DeploymentStatusPaused }, false},
		"it has no part of the roll-out": {func(b *bench, _ *model.DeploymentState) {
			b.Deployment.TaskGroups = map[string]*model.DeploymentState{}
		}, false},
	} {
		b, n := held(model.DeploymentStatusRunning)
		g := b.Deployment.TaskGroups["g"]
		c.edit(b, g)
		before := g.RequireProgressBy
		n.release()
		r := reconcile.Service(b.Input)
		if got := r.Deployment != nil; got != c.begins {
			t.Errorf("%s: the deadline begins: %t", name, got)
		} else if got && !r.Deployment.TaskGroups["g"].RequireProgressBy.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: the deadline is %s", name, r.Deployment.TaskGroups["g"].RequireProgressBy)
		}
		if !g.RequireProgressBy.Equal(before) {
			t.Errorf("%s: the deployment in state was changed", name)
		}
	}
}

func TestASystemJobThatIsHeldBackKeepsItsNodesAndCountsThoseItWaitsFor(t *testing.T) {
	b := rollout(t)
	n := &neighbours{jobs: map[string][]*model.Job{"j": b.jobs}, allocs: b.Allocs}
	b.Job.DependsOn = []*model.Dependency{{Name: "db", Condition: model.DependencyStarted}}
	b.Depend = n
	r := reconcile.System(b.Input, b.nodeList())
	expect(t, r)
	if h := r.Held["g"]; h == nil || h.Allocs != 3 {
		t.Errorf("held back are %+v, not three allocs", h)
	}
	b.Allocs, n.allocs = nil, nil
	b.infeasible["n3"] = true // it would not be placed there anyway
	r = reconcile.System(b.Input, b.nodeList())
	expect(t, r)
	if h := r.Held["g"]; h == nil || h.Allocs != 2 {
		t.Errorf("held back are %+v, not two allocs", h)
	}
}
