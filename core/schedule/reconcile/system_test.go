// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// systemRollout returns a system job of which v1 is being rolled out, with an alloc of it on n1, which is
// healthy, and others of v0 on n2 and n3.
func systemRollout(t *testing.T) (b *bench, first *model.Allocation) {
	yes := true
	b = rollout(t)
	b.Deployment = reconcile.System(b.Input, b.nodeList()).Deployment
	for _, a := range b.Allocs {
		if a.NodeID == "n1" {
			a.DesiredStatus, a.ClientStatus = model.AllocDesiredStatusStop, model.AllocClientStatusComplete
		}
	}
	first = b.alloc("b1", 0, "n1")
	first.DeploymentID, first.DeploymentStatus = b.Deployment.ID, &model.AllocDeploymentStatus{Healthy: &yes}
	return b, first
}

func TestARollOutOfASystemJobThatIsPausedOrHasFailedReplacesNothing(t *testing.T) {
	for status, rolls := range map[string]bool{
		model.DeploymentStatusRunning: true, model.DeploymentStatusPaused: false, model.DeploymentStatusFailed: false,
	} {
		b, _ := systemRollout(t)
		b.Deployment.Status = status
		var want []string
		if rolls {
			want = []string{"place j.g[0] v1 on n2 after a2 (update)"}
		}
		t.Log(status)
		expect(t, reconcile.System(b.Input, b.nodeList()), want...)
	}
}

func TestWhatARollOutOfASystemJobWaitsForBeforeItIsDone(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		edit func(b *bench, first *model.Allocation)
		done bool
	}{
		"all that is left is new and healthy": {func(*bench, *model.Allocation) {}, true},
		"one has ended since it was healthy":  {func(_ *bench, a *model.Allocation) { a.ClientStatus = model.AllocClientStatusComplete }, false},
		"one is unhealthy":                    {func(_ *bench, a *model.Allocation) { a.DeploymentStatus.Healthy = &no }, false},
		"one was unhealthy and is stopped": {func(b *bench, a *model.Allocation) {
			bad := b.alloc("bad", 0, "n1")
			bad.DeploymentID, bad.DesiredStatus, bad.ClientStatus = a.DeploymentID, model.AllocDesiredStatusStop, model.AllocClientStatusComplete
		}, true},
		"one was unhealthy and is replaced": {func(b *bench, a *model.Allocation) {
			bad := b.alloc("bad", 0, "n1")
			bad.DeploymentID, bad.NextAllocation, bad.ClientStatus = a.DeploymentID, a.ID, model.AllocClientStatusFailed
		}, true},
		"one that is not of it has no health": {func(b *bench, _ *model.Allocation) { b.alloc("new", 0, "n2") }, true},
		"one is outdated":                     {func(b *bench, _ *model.Allocation) { b.alloc("old", 0, "n2").JobVersion = 0 }, false},
	} {
		b, first := systemRollout(t)
		b.Allocs = []*model.Allocation{first}
		c.edit(b, first)
		if got := len(reconcile.System(b.Input, b.nodeList()[:1]).DeploymentUpdates) > 0; got != c.done {
			t.Errorf("%s: the deployment ends: %t", name, got)
		}
	}
}

func TestASystemAllocLeavesANodeThatIsDrained(t *testing.T) {
	yes := true
	b := newBench("system", 1)
	b.alloc("a", 0, "n1").DesiredTransition.Migrate = &yes
	expect(t, reconcile.System(b.Input, nil), "stop a: "+reconcile.DescMigrating)
}

func TestASystemAllocThatFailedIsForgottenWithItsNode(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*bench)
		want []string
	}{
		"its node is as it was":        {func(*bench) {}, nil},
		"its node is purged":           {func(b *bench) { delete(b.nodes, "n1") }, []string{"stop a: " + reconcile.DescNotNeeded}},
		"its node is drained":          {func(b *bench) { b.nodes["n1"].DrainStrategy = &model.DrainStrategy{} }, []string{"stop a: " + reconcile.DescNotNeeded}},
		"its node is no more suitable": {func(b *bench) { b.infeasible["n1"] = true }, []string{"stop a: " + reconcile.DescNotNeeded}},
		"its group is wanted no more":  {func(b *bench) { b.Job.TaskGroups[0].Count = 0 }, nil},
	} {
		b := newBench("system", 1)
		b.alloc("a", 0, "n1").ClientStatus = model.AllocClientStatusFailed
		c.edit(b)
		t.Log(name)
		expect(t, reconcile.System(b.Input, nil), c.want...)
	}
}

// Its end is not known: what follows on its node waits for it.
func TestWhatFollowsALostSystemAllocOnItsNodeKnowsIt(t *testing.T) {
	b := newBench("system", 1)
	a := b.alloc("a", 0, "n1")
	a.DesiredStatus, a.ClientStatus = model.AllocDesiredStatusStop, model.AllocClientStatusLost
	expect(t, reconcile.System(b.Input, b.nodeList()[:1]), "place j.g[0] v0 on n1 after a")
	a.NextAllocation = "b"
	expect(t, reconcile.System(b.Input, b.nodeList()[:1]), "place j.g[0] v0 on n1")
}

func TestOfASystemJobTwoNodesWithTheOldVersionGetCanariesFirst(t *testing.T) {
	b := rollout(t)
	b.Job.TaskGroups[0].Update = &model.UpdateStrategy{MaxParallel: 2, Canary: 34} // of three nodes: two
	r := reconcile.System(b.Input, b.nodeList())
	expect(t, r, "place j.g[0] v1 on n1 after a1 (update)", "place j.g[0] v1 on n2 after a2 (update)")
	if got := r.Deployment.TaskGroups["g"].DesiredCanaries; got != 2 || !r.Place[0].Canary {
		t.Errorf("%d canaries are wanted, and what is placed is %+v", got, r.Place[0])
	}
}

// What a node or a server can change without the tasks is no reason to start them again.
func TestWhichChangesNeedNewAllocs(t *testing.T) {
	old := &model.Job{TaskGroups: []*model.TaskGroup{{Name: "g", Count: 1, Tasks: []*model.Task{{Name: "t", Driver: "exec", Resources: &model.Resources{CPU: 100}}}}}}
	minute := time.Minute
	for name, c := range map[string]struct {
		edit func(j *model.Job, tg *model.TaskGroup, t *model.Task)
		same bool
	}{
		"nothing":            {func(*model.Job, *model.TaskGroup, *model.Task) {}, true},
		"meta that is empty": {func(j *model.Job, _ *model.TaskGroup, _ *model.Task) { j.Meta = map[string]string{} }, true},
		"meta":               {func(j *model.Job, _ *model.TaskGroup, _ *model.Task) { j.Meta = map[string]string{"a": "b"} }, false},
		"priority":           {func(j *model.Job, _ *model.TaskGroup, _ *model.Task) { j.Priority = 9 }, true},
		"count":              {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Count = 9 }, true},
		"update":             {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Update = &model.UpdateStrategy{} }, true},
		"migrate":            {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Migrate = &model.MigrateStrategy{} }, true},
		"scaling":            {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Scaling = &model.ScalingPolicy{} }, true},
		"reschedule": {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) {
			tg.ReschedulePolicy = &model.ReschedulePolicy{}
		}, true},
		"disconnect":                {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Disconnect = &model.DisconnectStrategy{} }, true},
		"shutdown delay":            {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.ShutdownDelay = &minute }, true},
		"stop after disconnect":     {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.StopAfterClientDisconnect = &minute }, true},
		"max disconnect":            {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.MaxClientDisconnect = &minute }, true},
		"max run duration":          {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.MaxRunDuration = &minute }, true},
		"prevent reschedule":        {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.PreventRescheduleOnLost = true }, true},
		"a dependency of the group": {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.DependsOn = []*model.Dependency{{}} }, true},
		"meta of the group":         {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Meta = map[string]string{"a": "b"} }, false},
		"network":                   {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Networks = []*model.NetworkResource{{}} }, false},
		"services of a task":        {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.Services = []*model.Service{{}} }, true},
		"restart of a task":         {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.RestartPolicy = &model.RestartPolicy{} }, true},
		"actions of a task":         {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.Actions = []*model.Action{{}} }, true},
		"a dependency of a task":    {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.DependsOn = []*model.Dependency{{}} }, true},
		"scaling of a task":         {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.ScalingPolicies = []*model.ScalingPolicy{{}} }, true},
		"kill timeout":              {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.KillTimeout = minute }, true},
		"driver":                    {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.Driver = "docker" }, false},
		"resources":                 {func(_ *model.Job, _ *model.TaskGroup, t *model.Task) { t.Resources = &model.Resources{CPU: 200} }, false},
		"the name of the group":     {func(_ *model.Job, tg *model.TaskGroup, _ *model.Task) { tg.Name = "h" }, false},
	} {
		j := old.Copy()
		c.edit(j, j.TaskGroups[0], j.TaskGroups[0].Tasks[0])
		if got := reconcile.SameRuntime(old, j, "g"); got != c.same {
			t.Errorf("%s: an alloc can go on: %t", name, got)
		}
		if got := reconcile.SameRuntime(j, old, "g"); got != c.same {
			t.Errorf("%s, the other way: an alloc can go on: %t", name, got)
		}
	}
	if reconcile.SameRuntime(nil, old, "g") || reconcile.SameRuntime(old, nil, "g") {
		t.Error("an alloc can go on under a version that is not kept")
	}
}
