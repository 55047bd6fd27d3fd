// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package explain_test

import (
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func TestWhatWaitsForGroupsAndJobsSaysForWhatAndHowLong(t *testing.T) {
	b := newBench(t)
	job := b.View().JobByID("default", "web").Copy()
	first := job.TaskGroups[0].Copy()
	first.Name, first.Count = "db", 2
	first.Tasks[0].Resources.CPU, job.TaskGroups[0].Tasks[0].Resources.CPU = 100, 100
	job.TaskGroups = append(job.TaskGroups, first)
	job.TaskGroups[0].DependsOn = []*model.Dependency{{Name: "db", Condition: model.DependencyHealthy, Timeout: 5 * time.Minute}}
	job.SubmitTime = now.UnixNano()
	b.update(func(tx *state.Tx) error { tx.UpsertJob(job, nil); return nil })
	out := b.run()
	if len(out.Plan.Place) != 2 || out.Blocked == nil {
		t.Fatalf("%d are placed", len(out.Plan.Place))
	}
	b.update(func(tx *state.Tx) error {
		return tx.UpdateAllocFromClient(&model.AllocReport{ID: out.Plan.Place[0].ID, ClientStatus: model.AllocClientStatusRunning,
			Health: &model.HealthReport{DeploymentID: out.Plan.Deployment.ID, Healthy: true}}, now.UnixNano())
	})
	at := b.explain(now.Add(time.Minute))
	words := `waits for group "db" to be healthy: 1 of 2 allocs are; limit in 4m0s`
	x := at.Job(b.View().JobByID("default", "web"))
	says(t, x, `Group "g" `+words+".", `Group "g": 3 allocations wait for dependencies`)
	for _, g := range x.Groups {
		if g.Missing != 0 || (g.Group == "g") != (g.Held == 3) {
			t.Errorf("%+v", g)
		}
	}
	says(t, at.Eval(out.Blocked), `3 allocations of group "g" wait: it `+words+".", "room on nodes is not what it waits for")
	says(t, at.Eval(out.Eval), `It held 3 allocations of group "g" back, which then waited for group "db" to be healthy: 0 of 2 allocs are.`, "waits for what they depend on")
	says(t, at.Deployment(b.View().DeploymentByID(out.Plan.Deployment.ID)), `Group "g" `+words)
	says(t, at.Node(b.View().NodeByID("n1000000-0000-0000-0000-000000000000")), `Not for this node, but for dependencies, waits job "web"`)
}

func TestAnAllocNamesTheTasksForWhichItsTasksWait(t *testing.T) {
	b := newBench(t)
	job := b.View().JobByID("default", "web").Copy()
	tg := job.TaskGroups[0]
	tg.Count = 1
	db := tg.Tasks[0].Copy()
	db.Name = "db"
	tg.Tasks[0].DependsOn = []*model.Dependency{{Name: "db", Condition: model.DependencyHealthy, Timeout: 10 * time.Minute}}
	tg.Tasks = append(tg.Tasks, db)
	b.update(func(tx *state.Tx) error { tx.UpsertJob(job, nil); return nil })
	out := b.run()
	a := b.View().AllocByID(out.Plan.Place[0].ID).Copy()
	event := model.EventAwaitsDependency("db")
	event.Time = now.UnixNano()
	a.TaskStates = map[string]*model.TaskState{
		"t":  {State: model.TaskStatePending, Events: []*model.TaskEvent{&event}},
		"db": {State: model.TaskStateRunning},
	}
	says(t, b.explain(now.Add(time.Minute)).Alloc(a),
		`Task "t" waits for task "db" to be healthy: it runs, and its node does not count it as healthy yet; limit in 9m0s.`)
	a.TaskStates["db"] = &model.TaskState{State: model.TaskStateDead}
	for _, line := range b.explain(now).Alloc(a).Says {
		if len(line) > 4 && line[:4] == "Task" {
			t.Errorf("it waits for a task that has ended well: %s", line)
		}
	}
}
