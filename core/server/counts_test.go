// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
	"github.com/drover-project/drover/internal/testkit"
)

// huge puts a job into state as an older server has taken it.
func huge(t *testing.T, c *testkit.Cluster, id string, groups, count int, edit func(*model.Job)) (evalID string) {
	t.Helper()
	job := &model.Job{ID: id, Name: id, Namespace: "default", Type: "service", Priority: 50, NodePool: "default", Datacenters: []string{"*"}}
	for i := range groups {
		job.TaskGroups = append(job.TaskGroups, &model.TaskGroup{
			Name: fmt.Sprint("g", i), Count: count, EphemeralDisk: &model.EphemeralDisk{SizeMB: 10},
			Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: &model.Resources{CPU: 100, MemoryMB: 10}}},
		})
	}
	if edit != nil {
		edit(job)
	}
	eval := &model.Evaluation{
		ID: "eval-" + id, Namespace: "default", JobID: id, Type: "service", Priority: 50, Status: model.EvalStatusPending,
		TriggeredBy: model.EvalTriggerJobRegister, CreateTime: time.Now().UnixNano(),
	}
	data, err := fsm.Encode(&fsm.UpsertJob{Job: job, Eval: eval})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Server.Raft().Propose(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	return eval.ID
}

func TestAJobOfAnyCountInStateEndsNoServerAndNoStart(t *testing.T) {
	dir := t.TempDir()
	inDir(t, dir, func(t *testing.T, c *testkit.Cluster) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		evals := []string{huge(t, c, "one", 1, 1_000_000_000, nil), huge(t, c, "sixty", 60, 1_000_000, nil)}
		all := huge(t, c, "all", 1, 1_000_000_000, func(j *model.Job) { j.AllAtOnce = true })
		for _, id := range append(evals, all) {
			c.Eventually("the evaluation of "+id+" is over", func() bool { return c.View().EvalByID(id).TerminalStatus() })
		}
		runtime.ReadMemStats(&after)
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 1000 {
			t.Errorf("deciding took %d MiB", mb)
		}
		for _, id := range evals {
			e := c.View().EvalByID(id)
			queued := 0
			for _, n := range e.QueuedAllocations {
				queued += n
			}
			if e.Status != model.EvalStatusComplete || e.BlockedEval == "" || queued < 60_000_000 {
				t.Errorf("%s is %s (%s), %d wait, blocked is %q", id, e.Status, e.StatusDescription, queued, e.BlockedEval)
			}
		}
		if e := c.View().EvalByID(all); e.Status != model.EvalStatusFailed || e.StatusDescription != schedule.DescTooMany {
			t.Errorf("all at once is %s (%s)", e.Status, e.StatusDescription)
		}
	})
	inDir(t, dir, func(t *testing.T, c *testkit.Cluster) {
		c.Node(nil)
		c.Eventually("what there is room for runs", func() bool {
			return len(c.View().AllocsByJob("default", "one"))+len(c.View().AllocsByJob("default", "sixty")) == 40
		})
		c.Must("DELETE", "/v1/job/one", nil, nil)
		c.Must("DELETE", "/v1/job/sixty", nil, nil)
		c.Run("small", 2)
	})
}

func TestOneLimitOfCountsHoldsOnEveryPath(t *testing.T) {
	c := testkit.Start(t)
	job := func(id string, count int) map[string]any { return map[string]any{"Job": testkit.Job(id, count)} }
	refused := func(what, method, path string, body any, want string) {
		t.Helper()
		if r, text := c.Ask(method, path, body); r.StatusCode < 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %s %.200s", what, r.Status, text)
		}
	}
	const over = "total count was greater than configured job_max_count: 50001 > 50000"
	refused("register", "PUT", "/v1/jobs", job("a", 50_001), over)
	refused("plan", "PUT", "/v1/job/a/plan", job("a", 50_001), over)
	if r, text := c.Ask("PUT", "/v1/validate/job", job("a", 50_001)); r.StatusCode != 200 || !strings.Contains(text, over) {
		t.Errorf("validate: %s %.200s", r.Status, text)
	}
	c.Must("PUT", "/v1/jobs", job("a", 1), nil)
	for count, want := range map[int]string{50_001: over, 1_000_000_000: "Task group count 1000000000 is over the limit of 1000000"} {
		refused("scale", "PUT", "/v1/job/a/scale", map[string]any{"Count": count, "Target": map[string]any{"Group": "g"}}, want)
	}
	huge(t, c, "old", 1, 1_000_000_000, nil) // from an older log
	huge(t, c, "old", 1, 1, nil)
	refused("revert", "PUT", "/v1/job/old/revert", map[string]any{"JobID": "old", "JobVersion": 0}, "over the limit")
	huge(t, c, "a", 1, 1_000_000_000, func(j *model.Job) { j.TaskGroups[0].Name = "g" })
	keep := job("a", 1)
	keep["PreserveCounts"] = true
	refused("register with the counts that there are", "PUT", "/v1/jobs", keep, "over the limit")
	huge(t, c, "parent", 1, 1_000_000_000, func(j *model.Job) { j.Type, j.ParameterizedJob = "batch", &model.ParameterizedJobConfig{} })
	refused("dispatch", "PUT", "/v1/job/parent/dispatch", map[string]any{}, "over the limit")
	huge(t, c, "times", 1, 1_000_000_000, func(j *model.Job) {
		j.Type, j.Periodic = "batch", &model.PeriodicConfig{Enabled: true, Spec: "0 0 1 1 *", SpecType: "cron", TimeZone: "UTC"}
	})
	refused("force", "PUT", "/v1/job/times/periodic/force", nil, "over the limit")
	policy := testkit.Job("p", 1)
	policy["TaskGroups"].([]any)[0].(map[string]any)["Scaling"] = map[string]any{"Min": 0, "Max": 1_000_000_000, "Enabled": true}
	refused("scaling policy", "PUT", "/v1/jobs", map[string]any{"Job": policy}, "maximum count 1000000000 is over the limit")
}
