// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package compat_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

const jobHCL = `
job "web" {
  datacenters = ["dc1"]
  meta { owner = "team-a" }
  group "app" {
    count = 2
    update {
      max_parallel     = 2
      min_healthy_time = "200ms"
      healthy_deadline = "20s"
    }
    scaling {
      enabled = true
      min     = 1
      max     = 5
    }
    task "server" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo out of $NOMAD_ALLOC_ID; echo bad >&2; exec sleep 600"]
      }
      env { GREETING = "hi" }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
`

func running(t *testing.T, c *api.Client, job string, n int) []*api.AllocationListStub {
	t.Helper()
	var out []*api.AllocationListStub
	eventually(t, fmt.Sprintf("%d running allocs of %s", n, job), func() error {
		allocs, _, err := c.Jobs().Allocations(job, false, nil)
		if err != nil {
			return err
		}
		out = nil
		for _, a := range allocs {
			if a.ClientStatus == "running" && a.DesiredStatus == "run" {
				out = append(out, a)
			}
		}
		if len(out) != n {
			return fmt.Errorf("%d allocs run of %d", len(out), len(allocs))
		}
		return nil
	})
	return out
}

// The subtests share one agent, because starting one takes longer than each of them.
func TestTheClientOfTheReferenceWorksUnchanged(t *testing.T) {
	c := agent(t)
	job, err := c.Jobs().ParseHCL(jobHCL, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T, *api.Client, *api.Job)
	}{
		{"what is missing is refused in the reference's words", refusals},
		{"a plan tells what a registration would do", plan},
		{"a job registers and runs", register},
		{"lists page, filter and take prefixes", lists},
		{"a blocked read answers at the change", blocking},
		{"logs and files read", logsAndFiles},
		{"a command runs in a task", execute},
		{"an update rolls out as a deployment", update},
		{"a group scales within its policy", scale},
		{"an alloc stops and is replaced", stopAlloc},
		{"namespaces and node pools come and go", namespaces},
		{"agent and operator answer", operator},
		{"events are streamed", events},
		{"a job stops and is purged", deregister},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, c, job) }) {
			t.Fatalf("%q failed; what follows builds on it", step.name)
		}
	}
}

func refusals(t *testing.T, c *api.Client, job *api.Job) {
	_, _, err := c.Jobs().Info("nope", nil)
	wantError(t, err, 404, "job not found")
	_, _, err = c.Allocations().Info("00000000-0000-0000-0000-000000000000", nil)
	wantError(t, err, 404, "alloc not found")
	_, _, err = c.Jobs().List(&api.QueryOptions{Region: "nowhere"})
	wantError(t, err, 500, "No path to region")
	_, _, err = c.Jobs().EnforceRegister(job, 7, nil)
	wantError(t, err, 500, "Enforcing job modify index 7")
	_, err = c.Jobs().ParseHCL("job \"x\" { grup \"a\" {} }", true)
	wantError(t, err, 400, "Failed to parse job")
}

func plan(t *testing.T, c *api.Client, job *api.Job) {
	resp, _, err := c.Jobs().Plan(job, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Annotations.DesiredTGUpdates["app"].Place; got != 2 {
		t.Errorf("the plan places %d, want 2", got)
	}
	if resp.Diff == nil || resp.Diff.Type != "Added" {
		t.Errorf("the diff is %+v, want everything added", resp.Diff)
	}
	if _, _, err := c.Jobs().Info("web", nil); err == nil {
		t.Error("a plan registered the job")
	}
}

func register(t *testing.T, c *api.Client, job *api.Job) {
	v, _, err := c.Jobs().Validate(job, nil)
	if err != nil || v.Error != "" {
		t.Fatalf("validate: %v, %+v", err, v)
	}
	resp, meta, err := c.Jobs().RegisterOpts(job, &api.RegisterOptions{Submission: &api.JobSubmission{Source: jobHCL, Format: "hcl2"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.EvalID == "" || meta.LastIndex == 0 {
		t.Errorf("eval %q, index %d", resp.EvalID, meta.LastIndex)
	}
	allocs := running(t, c, "web", 2)
	a, _, err := c.Allocations().Info(allocs[0].ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Job == nil || *a.Job.ID != "web" || a.Resources == nil || *a.Resources.CPU != 50 || len(a.Metrics.ScoreMetaData) == 0 {
		t.Errorf("alloc detail: job %v, resources %+v, metrics %+v", a.Job != nil, a.Resources, a.Metrics)
	}
	sub, _, err := c.Jobs().Submission("web", 0, nil)
	if err != nil || sub.Source != jobHCL {
		t.Errorf("submission: %v", err)
	}
	e, _, err := c.Evaluations().Info(resp.EvalID, nil)
	if err != nil || e.Status != "complete" {
		t.Errorf("eval: %v, %+v", err, e)
	}
	sum, _, err := c.Jobs().Summary("web", nil)
	if err != nil || sum.Summary["app"].Running != 2 {
		t.Errorf("summary: %v, %+v", err, sum)
	}
}

func lists(t *testing.T, c *api.Client, _ *api.Job) {
	jobs, _, err := c.Jobs().List(&api.QueryOptions{Filter: `Type == "service"`, Prefix: "we", Namespace: "*"})
	if err != nil || len(jobs) != 1 || jobs[0].ID != "web" {
		t.Errorf("jobs: %v, %+v", err, jobs)
	}
	first, meta, err := c.Allocations().List(&api.QueryOptions{PerPage: 1})
	if err != nil || len(first) != 1 || meta.NextToken == "" {
		t.Fatalf("first page: %v, %d allocs, token %q", err, len(first), meta.NextToken)
	}
	second, _, err := c.Allocations().List(&api.QueryOptions{PerPage: 1, NextToken: meta.NextToken})
	if err != nil || len(second) != 1 || second[0].ID == first[0].ID {
		t.Errorf("second page: %v, %+v", err, second)
	}
	byPrefix, _, err := c.Allocations().PrefixList(first[0].ID[:8])
	if err != nil || len(byPrefix) != 1 {
		t.Errorf("by prefix: %v, %d", err, len(byPrefix))
	}
	if _, _, err = c.Jobs().List(&api.QueryOptions{Filter: "Nope =="}); err == nil {
		t.Error("a broken filter is not refused")
	}
	found, _, err := c.Search().PrefixSearch("we", "jobs", nil)
	if err != nil || len(found.Matches["jobs"]) != 1 {
		t.Errorf("search: %v, %+v", err, found)
	}
}

func blocking(t *testing.T, c *api.Client, _ *api.Job) {
	_, meta, err := c.Namespaces().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		n     int
		index uint64
		err   error
	}
	got := make(chan result, 1)
	go func() {
		list, m, err := c.Namespaces().List(&api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 2 * time.Minute})
		r := result{n: len(list), err: err}
		if m != nil {
			r.index = m.LastIndex
		}
		got <- r
	}()
	if _, err := c.Namespaces().Register(&api.Namespace{Name: "wakes"}, nil); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.err != nil || r.index <= meta.LastIndex || r.n < 2 {
		t.Errorf("got %+v after index %d", r, meta.LastIndex)
	}
	if _, err := c.Namespaces().Delete("wakes", nil); err != nil {
		t.Error(err)
	}
}

func firstAlloc(t *testing.T, c *api.Client) *api.Allocation {
	t.Helper()
	allocs, _, err := c.Jobs().Allocations("web", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range allocs {
		if a.ClientStatus == "running" && a.DesiredStatus == "run" {
			return must(infoOf(c, a.ID))(t)
		}
	}
	t.Fatal("no alloc of web runs")
	return nil
}

func infoOf(c *api.Client, id string) (*api.Allocation, error) {
	a, _, err := c.Allocations().Info(id, nil)
	return a, err
}

func logsAndFiles(t *testing.T, c *api.Client, _ *api.Job) {
	a := firstAlloc(t, c)
	want := "out of " + a.ID
	eventually(t, "log line", func() error {
		stop := make(chan struct{})
		defer close(stop)
		frames, errs := c.AllocFS().Logs(a, false, "server", "stdout", "start", 0, stop, nil)
		var text strings.Builder
		for {
			select {
			case f, ok := <-frames:
				if !ok {
					if strings.Contains(text.String(), want) {
						return nil
					}
					return fmt.Errorf("the log reads %q", text.String())
				}
				text.Write(f.Data)
			case err := <-errs:
				return err
			}
		}
	})
	files, _, err := c.AllocFS().List(a, "/server", nil)
	if err != nil || len(files) == 0 {
		t.Fatalf("list: %v, %v", err, files)
	}
	info, _, err := c.AllocFS().Stat(a, "/alloc/logs/server.stdout.0", nil)
	if err != nil || info.Size == 0 || info.IsDir {
		t.Fatalf("stat: %v, %+v", err, info)
	}
	r, err := c.AllocFS().ReadAt(a, "/alloc/logs/server.stdout.0", 4, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "of" {
		t.Errorf("read at: %q, %v", b, err)
	}
	if out, err := c.AllocFS().Cat(a, "../../../../../etc/passwd", nil); err == nil {
		defer out.Close()
		if b, _ := io.ReadAll(out); strings.Contains(string(b), "root:") {
			t.Error("a path led out of the alloc's directory")
		}
	}
}

func execute(t *testing.T, c *api.Client, _ *api.Job) {
	a := firstAlloc(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code, err := c.Allocations().Exec(ctx, a, "server", false, []string{"/bin/sh", "-c", "cat; exit 7"}, strings.NewReader("ping"), &stdout, &stderr, nil, nil)
	if err != nil || code != 7 || stdout.String() != "ping" {
		t.Errorf("code %d, out %q, err out %q, %v", code, stdout.String(), stderr.String(), err)
	}
}

func deployed(t *testing.T, c *api.Client, version uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("successful deployment of version %d", version), func() error {
		d, _, err := c.Jobs().LatestDeployment("web", nil)
		if err != nil {
			return err
		}
		if d == nil || d.JobVersion != version || d.Status != "successful" {
			return fmt.Errorf("the latest deployment is %+v", d)
		}
		return nil
	})
}

func update(t *testing.T, c *api.Client, job *api.Job) {
	deployed(t, c, 0)
	job.TaskGroups[0].Tasks[0].Env["GREETING"] = "v2"
	if _, _, err := c.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	deployed(t, c, 1)
	running(t, c, "web", 2)
	versions, diffs, _, err := c.Jobs().Versions("web", true, nil)
	if err != nil || len(versions) != 2 || len(diffs) != 1 {
		t.Fatalf("versions: %v, %d, %d diffs", err, len(versions), len(diffs))
	}
	if _, _, err = c.Jobs().Revert("web", 0, nil, nil, "", ""); err != nil {
		t.Fatal(err)
	}
	deployed(t, c, 2)
	_, _, err = c.Jobs().Revert("web", 77, nil, nil, "", "")
	wantError(t, err, 500, "at version 77 not found")
}

func scale(t *testing.T, c *api.Client, _ *api.Job) {
	running(t, c, "web", 2)
	three, nine := 3, 9
	if _, _, err := c.Jobs().Scale("web", "app", &three, "up", false, nil, nil); err != nil {
		t.Fatal(err)
	}
	running(t, c, "web", 3)
	_, _, err := c.Jobs().Scale("web", "app", &nine, "", false, nil, nil)
	wantError(t, err, 400, "greater than scaling policy maximum: 9 > 5")
	st, _, err := c.Jobs().ScaleStatus("web", nil)
	if err != nil || st.TaskGroups["app"].Desired != 3 {
		t.Errorf("scale status: %v, %+v", err, st)
	}
	policies, _, err := c.Scaling().ListPolicies(nil)
	if err != nil || len(policies) != 1 {
		t.Errorf("policies: %v, %+v", err, policies)
	}
}

func stopAlloc(t *testing.T, c *api.Client, _ *api.Job) {
	a := firstAlloc(t, c)
	resp, err := c.Allocations().Stop(a, nil)
	if err != nil || resp.EvalID == "" {
		t.Fatalf("stop: %v, %+v", err, resp)
	}
	eventually(t, "end of the stopped alloc", func() error {
		now, err := infoOf(c, a.ID)
		if err != nil {
			return err
		}
		if now.ClientStatus != "complete" || now.NextAllocation == "" {
			return fmt.Errorf("it is %s, its successor %q", now.ClientStatus, now.NextAllocation)
		}
		return nil
	})
	running(t, c, "web", 3)
}

func namespaces(t *testing.T, c *api.Client, _ *api.Job) {
	if _, err := c.Namespaces().Register(&api.Namespace{Name: "dev", Description: "d"}, nil); err != nil {
		t.Fatal(err)
	}
	ns, _, err := c.Namespaces().Info("dev", nil)
	if err != nil || ns.Description != "d" {
		t.Errorf("namespace: %v, %+v", err, ns)
	}
	if _, err := c.Namespaces().Delete("dev", nil); err != nil {
		t.Error(err)
	}
	_, err = c.Namespaces().Delete("default", nil)
	wantError(t, err, 500, "can not delete default namespace")
	if _, err := c.NodePools().Register(&api.NodePool{Name: "gpu"}, nil); err != nil {
		t.Fatal(err)
	}
	pools, _, err := c.NodePools().List(nil)
	if err != nil || len(pools) != 3 {
		t.Errorf("pools: %v, %d", err, len(pools))
	}
	if _, err := c.NodePools().Delete("gpu", nil); err != nil {
		t.Error(err)
	}
}

func operator(t *testing.T, c *api.Client, _ *api.Job) {
	if leader, err := c.Status().Leader(); err != nil || leader == "" {
		t.Errorf("leader %q, %v", leader, err)
	}
	if _, err := c.Agent().Self(); err != nil {
		t.Error(err)
	}
	if m, err := c.Agent().Members(); err != nil || len(m.Members) != 1 {
		t.Errorf("members: %v, %+v", err, m)
	}
	if h, err := c.Agent().Health(); err != nil || !h.Client.Ok || !h.Server.Ok {
		t.Errorf("health: %v, %+v", err, h)
	}
	if cfg, err := c.Operator().RaftGetConfiguration(nil); err != nil || len(cfg.Servers) != 1 || !cfg.Servers[0].Leader {
		t.Errorf("raft: %v, %+v", err, cfg)
	}
	cfg, _, err := c.Operator().SchedulerGetConfiguration(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.SchedulerConfig.SchedulerAlgorithm = api.SchedulerAlgorithmSpread
	if resp, _, err := c.Operator().SchedulerCASConfiguration(cfg.SchedulerConfig, nil); err != nil || !resp.Updated {
		t.Errorf("scheduler configuration: %v, %+v", err, resp)
	}
	nodes, _, err := c.Nodes().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Nodes().ToggleEligibility(nodes[0].ID, false, nil); err != nil {
		t.Fatal(err)
	}
	if n, _, err := c.Nodes().Info(nodes[0].ID, nil); err != nil || n.SchedulingEligibility != "ineligible" {
		t.Errorf("node: %v, %+v", err, n)
	}
	if _, err := c.Nodes().ToggleEligibility(nodes[0].ID, true, nil); err != nil {
		t.Fatal(err)
	}
}

func events(t *testing.T, c *api.Client, _ *api.Job) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := c.EventStream().Stream(ctx, map[api.Topic][]string{api.TopicNodePool: {"*"}}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.NodePools().Register(&api.NodePool{Name: "seen"}, nil); err != nil {
		t.Fatal(err)
	}
	for batch := range stream {
		if batch.Err != nil {
			t.Fatal(batch.Err)
		}
		for _, e := range batch.Events {
			if e.Key == "seen" && e.Type == "NodePoolUpserted" {
				return
			}
		}
	}
	t.Error("the stream ended without the event")
}

func deregister(t *testing.T, c *api.Client, _ *api.Job) {
	if _, _, err := c.Jobs().Deregister("web", false, nil); err != nil {
		t.Fatal(err)
	}
	running(t, c, "web", 0)
	job, _, err := c.Jobs().Info("web", nil)
	if err != nil || !*job.Stop {
		t.Errorf("the job is kept, and stopped: %v", err)
	}
	if _, _, err := c.Jobs().Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Jobs().Info("web", nil)
	wantError(t, err, 404, "job not found")
}
