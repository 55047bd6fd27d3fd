// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package reconcile_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/reconcile"
)

// neighbours is the state of a namespace: jobs with all their versions, oldest first, and allocs.
type neighbours struct {
	jobs   map[string][]*model.Job
	allocs []*model.Allocation
}

func (n *neighbours) JobByID(_, id string) *model.Job {
	if vs := n.jobs[id]; len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return nil
}

func (n *neighbours) JobByVersion(_, id string, version uint64) *model.Job {
	if vs := n.jobs[id]; int(version) < len(vs) {
		return vs[version]
	}
	return nil
}

func (n *neighbours) AllocsByJob(_, id string) []*model.Allocation {
	return slices.DeleteFunc(slices.Clone(n.allocs), func(a *model.Allocation) bool { return a.JobID != id })
}

// pairOfJobs has the job app, whose group g depends on the job db, and db with two allocs.
func pairOfJobs(condition string) (n *neighbours, app, db *model.Job) {
	group := func(count int) []*model.TaskGroup {
		return []*model.TaskGroup{{Name: "g", Count: count, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Env: map[string]string{}}}}}
	}
	app = &model.Job{ID: "app", Type: "service", CreateIndex: 1, SubmitTime: now.UnixNano(), TaskGroups: group(1), DependsOn: []*model.Dependency{{Name: "db", Condition: condition}}}
	db = &model.Job{ID: "db", Type: "service", CreateIndex: 1, TaskGroups: group(2)}
	n = &neighbours{jobs: map[string][]*model.Job{"app": {app}, "db": {db}}}
	n.run("1", db)
	n.run("2", db)
	return n, app, db
}

func (n *neighbours) run(id string, j *model.Job) *model.Allocation {
	a := &model.Allocation{ID: id, JobID: j.ID, TaskGroup: "g", JobVersion: j.Version, CreateIndex: 5, DesiredStatus: model.AllocDesiredStatusRun, ClientStatus: model.AllocClientStatusRunning}
	n.allocs = append(n.allocs, a)
	return a
}

func TestAGroupIsHeldBackUntilTheJobItDependsOnIsAsItNeedsIt(t *testing.T) {
	yes, no := true, false
	health := func(healthy *bool) *model.AllocDeploymentStatus {
		return &model.AllocDeploymentStatus{Healthy: healthy}
	}
	for name, c := range map[string]struct {
		condition string
		edit      func(n *neighbours, app, db *model.Job)
		want      string // what is missing
	}{
		"it runs":                            {condition: model.DependencyStarted},
		"it runs, and nobody judges it":      {condition: model.DependencyHealthy},
		"its job does not exist":             {model.DependencyStarted, func(n *neighbours, _, _ *model.Job) { delete(n.jobs, "db") }, "it does not exist"},
		"its job is stopped":                 {model.DependencyStarted, func(_ *neighbours, _, db *model.Job) { db.Stop = true }, "it is stopped"},
		"its job is periodic":                {model.DependencyStarted, func(_ *neighbours, _, db *model.Job) { db.Periodic = &model.PeriodicConfig{} }, "it is a template, of which only children run"},
		"its job is parameterized":           {model.DependencyStarted, func(_ *neighbours, _, db *model.Job) { db.ParameterizedJob = &model.ParameterizedJobConfig{} }, "it is a template, of which only children run"},
		"a service never completes":          {condition: model.DependencyComplete, want: "it never completes, since it is of type service"},
		"batch work that still runs":         {model.DependencyComplete, func(_ *neighbours, _, db *model.Job) { db.Type = "batch" }, "0 of 2 allocs are"},
		"one of two pieces of work is done":  {model.DependencyComplete, func(n *neighbours, _, db *model.Job) { db.Type = "batch"; n.allocs[0].ClientStatus = "complete" }, "1 of 2 allocs are"},
		"work that is done has been started": {model.DependencyStarted, func(n *neighbours, _, db *model.Job) { db.Type = "batch"; n.allocs[0].ClientStatus = "complete" }, ""},
		"one starts yet":                     {model.DependencyStarted, func(n *neighbours, _, _ *model.Job) { n.allocs[0].ClientStatus = "pending" }, "1 of 2 allocs are"},
		"one should end":                     {model.DependencyStarted, func(n *neighbours, _, _ *model.Job) { n.allocs[0].DesiredStatus = "stop" }, "1 of 2 allocs are"},
		"one was replaced":                   {model.DependencyStarted, func(n *neighbours, _, _ *model.Job) { n.allocs[0].NextAllocation = "2" }, "1 of 2 allocs are"},
		"one is of a purged namesake":        {model.DependencyStarted, func(n *neighbours, _, db *model.Job) { db.CreateIndex = 9; n.allocs[1].CreateIndex = 9 }, "1 of 2 allocs are"},
		"one is healthy":                     {model.DependencyHealthy, func(n *neighbours, _, _ *model.Job) { n.allocs[0].DeploymentStatus = health(&yes) }, ""},
		"one is unhealthy":                   {model.DependencyHealthy, func(n *neighbours, _, _ *model.Job) { n.allocs[0].DeploymentStatus = health(&no) }, "1 of 2 allocs are"},
		"its deployment will judge it":       {model.DependencyHealthy, func(n *neighbours, _, _ *model.Job) { n.allocs[0].DeploymentID = "d" }, "1 of 2 allocs are"},
		"a status that judges nothing":       {model.DependencyHealthy, func(n *neighbours, _, _ *model.Job) { n.allocs[0].DeploymentStatus = health(nil) }, ""},
		"unhealthy is enough for started":    {model.DependencyStarted, func(n *neighbours, _, _ *model.Job) { n.allocs[0].DeploymentStatus = health(&no) }, ""},
		"more than are wanted of one group do not make up for another": {model.DependencyStarted, func(n *neighbours, _, db *model.Job) {
			h := db.TaskGroups[0].Copy()
			h.Name, h.Count = "h", 1
			db.TaskGroups = append(db.TaskGroups, h)
			n.run("3", db)
		}, "2 of 3 allocs are"},
		"a new version of it is not rolled out yet": {model.DependencyStarted, func(n *neighbours, _, db *model.Job) {
			v1 := db.Copy()
			v1.Version, v1.TaskGroups[0].Tasks[0].Env["V"] = 1, "2"
			n.jobs["db"] = append(n.jobs["db"], v1)
		}, "0 of 2 allocs are"},
		"its new version changes nothing that runs": {model.DependencyStarted, func(n *neighbours, _, db *model.Job) {
			v1 := db.Copy()
			v1.Version, v1.Priority = 1, 70
			n.jobs["db"] = append(n.jobs["db"], v1)
		}, ""},
		"what runs goes on after its job was changed and changed back": {model.DependencyStarted, func(n *neighbours, _, db *model.Job) {
			v1, v2 := db.Copy(), db.Copy()
			v1.Version, v2.Version, v1.TaskGroups[0].Tasks[0].Env["V"] = 1, 2, "2"
			n.jobs["db"] = append(n.jobs["db"], v1, v2)
		}, ""},
		"what was done is done again after its job was changed and changed back": {model.DependencyComplete, func(n *neighbours, _, db *model.Job) {
			db.Type = "batch"
			v1, v2 := db.Copy(), db.Copy()
			v1.Version, v2.Version, v1.TaskGroups[0].Tasks[0].Env["V"] = 1, 2, "2"
			n.jobs["db"] = append(n.jobs["db"], v1, v2)
			for _, a := range n.allocs {
				a.ClientStatus = "complete"
			}
		}, "0 of 2 allocs are"},
		"on each node it has, it runs": {model.DependencyStarted, func(_ *neighbours, _, db *model.Job) { db.Type, db.TaskGroups[0].Count = "system", 1 }, ""},
		"on one of its nodes it does not": {model.DependencyStarted, func(n *neighbours, _, db *model.Job) {
			db.Type, db.TaskGroups[0].Count = "sysbatch", 1
			n.allocs[1].ClientStatus = "pending"
		}, "1 of 2 allocs are"},
		"it has no node yet":                   {model.DependencyStarted, func(n *neighbours, _, db *model.Job) { db.Type, n.allocs = "system", nil }, "0 of 1 allocs are"},
		"it wants none":                        {model.DependencyStarted, func(n *neighbours, _, db *model.Job) { db.Type, db.TaskGroups[0].Count, n.allocs = "system", 0, nil }, ""},
		"the group has begun":                  {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) { n.allocs = nil; n.run("a", app) }, ""},
		"another group of the job has begun":   {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) { n.allocs = nil; n.run("a", app).TaskGroup = "h" }, "0 of 2 allocs are"},
		"what began was of the job's namesake": {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) { n.allocs = nil; app.CreateIndex = 9; n.run("a", app) }, "0 of 2 allocs are"},
		"the group wants nothing":              {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) { n.allocs, app.TaskGroups[0].Count = nil, 0 }, ""},
		"the waiting job is stopped":           {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) { n.allocs, app.Stop = nil, true }, ""},
		"the waiting job is a periodic one":    {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) { n.allocs, app.Periodic = nil, &model.PeriodicConfig{} }, ""},
		"the waiting job is a parameterized one": {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) {
			n.allocs, app.ParameterizedJob = nil, &model.ParameterizedJobConfig{}
		}, ""},
		"the waiting job depends on nothing": {model.DependencyStarted, func(n *neighbours, app, _ *model.Job) { n.allocs, app.DependsOn = nil, nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, app, db := pairOfJobs(c.condition)
			if c.edit != nil {
				c.edit(n, app, db)
			}
			want := map[string][]string{}
			if c.want != "" {
				want["g"] = []string{`job "db" to be ` + c.condition + ": " + c.want}
			}
			got := map[string][]string{}
			for g, h := range reconcile.Holds(n, app, now) {
				got[g] = h.On
			}
			if !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("held back are %q, not %q", got, want)
			}
		})
	}
}

// Of limits that have passed the first one that is met counts, else the next one.
func TestTheLimitOfAHoldIsTheNextOneOfWhatItWaitsFor(t *testing.T) {
	const a, b, c = `job "a" to be started: it does not exist`, `job "b" to be started: it does not exist`, `job "c" to be started: it does not exist`
	for name, x := range map[string]struct {
		limits [3]time.Duration
		later  time.Duration
		on     []string
		until  time.Duration // 0: none
		over   bool
	}{
		"none":                       {on: []string{a, b, c}},
		"one":                        {limits: [3]time.Duration{0, time.Hour, 0}, on: []string{a, b, c}, until: time.Hour},
		"the next one":               {limits: [3]time.Duration{2 * time.Hour, time.Hour, 3 * time.Hour}, on: []string{a, b, c}, until: time.Hour},
		"just before it passes":      {limits: [3]time.Duration{0, time.Hour, 0}, later: time.Hour - 1, on: []string{a, b, c}, until: time.Hour},
		"one has passed":             {limits: [3]time.Duration{0, time.Hour, 2 * time.Hour}, later: time.Hour, on: []string{b}, until: time.Hour, over: true},
		"all have, the first counts": {limits: [3]time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour}, later: 9 * time.Hour, on: []string{a, b, c}, until: time.Hour, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			n, app, _ := pairOfJobs("")
			app.DependsOn = nil
			for i, id := range []string{"a", "b", "c"} {
				app.DependsOn = append(app.DependsOn, &model.Dependency{Name: id, Condition: model.DependencyStarted, Timeout: x.limits[i]})
			}
			h := reconcile.Holds(n, app, now.Add(x.later))["g"]
			var until time.Time
			if x.until > 0 {
				until = now.Add(x.until)
			}
			if h == nil || !slices.Equal(h.On, x.on) || !h.Until.Equal(until) || h.Over != x.over {
				t.Errorf("it waits as %+v", h)
			}
		})
	}
}
