// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package compat_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// TestTheRestOfTheSurfaceWorksThroughTheReferencesClient covers operations that do
// not concern jobs.
func TestTheRestOfTheSurfaceWorksThroughTheReferencesClient(t *testing.T) {
	c := agent(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T, *api.Client)
	}{
		{"variables", variables}, {"locks", locks}, {"keyring", keys}, {"node metadata", nodeMeta}, {"snapshots", snapshots},
		{"metrics", metricNames}, {"monitor", monitor}, {"dispatch", dispatched}, {"search", searched}, {"evals", evals}, {"pages and filters", pages}, {"paused tasks", pausedTasks},
	} {
		t.Run(step.name, func(t *testing.T) { step.do(t, c) })
	}
}

const scheduledHCL = `
job "shop" {
  group "app" {
    task "shop" {
      driver = "raw_exec"
      schedule {
        cron {
          start = "0 0 1 1 *"
          end   = "1 0"
        }
      }
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
    }
  }
}
`

// pausedTasks checks the route, the fields and the values of alloc pause, of which no answer of
// the reference was recorded.
func pausedTasks(t *testing.T, c *api.Client) {
	job, err := c.Jobs().ParseHCL(scheduledHCL, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	var a *api.Allocation
	eventually(t, "an alloc", func() error {
		allocs, _, err := c.Jobs().Allocations("shop", false, nil)
		if err == nil && len(allocs) != 1 {
			err = fmt.Errorf("%d allocs", len(allocs))
		}
		if err == nil {
			a = &api.Allocation{ID: allocs[0].ID}
		}
		return err
	})
	is := func(want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the task is %q", want), func() error {
			got, _, err := c.Allocations().GetPauseState(a, nil, "shop")
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	is("scheduled_pause")
	for _, step := range []struct{ told, is string }{{"run", "force_run"}, {"pause", "force_pause"}, {"scheduled", "scheduled_pause"}} {
		if err := c.Allocations().SetPauseState(a, nil, "shop", step.told); err != nil {
			t.Fatal(err)
		}
		is(step.is)
	}
	if err := c.Allocations().SetPauseState(a, nil, "shop", "sleep"); err == nil {
		t.Error("an unknown state was accepted")
	}
}

func variables(t *testing.T, c *api.Client) {
	v := &api.Variable{Path: "app/db", Items: api.VariableItems{"user": "root"}}
	written := must3(c.Variables().Create(v, nil))(t)
	if written.ModifyIndex == 0 || written.Items["user"] != "root" {
		t.Errorf("created %+v", written)
	}
	var conflict api.ErrCASConflict
	if _, _, err := c.Variables().CheckedUpdate(&api.Variable{Path: "app/db", Items: api.VariableItems{"user": "nobody"}}, nil); !errors.As(err, &conflict) || conflict.Conflict.ModifyIndex != written.ModifyIndex {
		t.Errorf("created twice: %v", err)
	}
	written.Items["user"] = "admin"
	updated := must3(c.Variables().CheckedUpdate(written, nil))(t)
	read := must3(c.Variables().Read("app/db", nil))(t)
	if read.Items["user"] != "admin" || read.ModifyIndex != updated.ModifyIndex {
		t.Errorf("read %+v", read)
	}
	if list := must3(c.Variables().PrefixList("app/", nil))(t); len(list) != 1 || list[0].Path != "app/db" {
		t.Errorf("listed %+v", list)
	}
	if _, err := c.Variables().Delete("app/db", nil); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Variables().Read("app/db", nil); !errors.Is(err, api.ErrVariablePathNotFound) {
		t.Errorf("read what is deleted: %v", err)
	}
}

func locks(t *testing.T, c *api.Client) {
	lock := &api.Variable{Path: "lock/one", Items: api.VariableItems{"holder": "me"}, Lock: &api.VariableLock{TTL: "15s", LockDelay: "15s"}}
	held := must3(c.Variables().AcquireLock(lock, nil))(t)
	if held.LockID() == "" {
		t.Fatalf("acquired %+v", held)
	}
	if _, _, err := c.Variables().AcquireLock(lock, nil); err == nil {
		t.Error("acquired twice")
	}
	if _, _, err := c.Variables().RenewLock(held, nil); err != nil {
		t.Errorf("renew: %v", err)
	}
	if _, _, err := c.Variables().ReleaseLock(held, nil); err != nil {
		t.Errorf("release: %v", err)
	}
	again := must3(c.Variables().AcquireLock(lock, nil))(t)
	if _, _, err := c.Variables().ReleaseLock(again, nil); err != nil {
		t.Errorf("release again: %v", err)
	}
}

func keys(t *testing.T, c *api.Client) {
	before := must3(c.Keyring().List(nil))(t)
	if len(before) == 0 {
		t.Fatal("no key")
	}
	fresh, _, err := c.Keyring().Rotate(&api.KeyringRotateOptions{Full: true}, nil)
	if err != nil || fresh.KeyID == before[0].KeyID {
		t.Fatalf("rotated to %+v, %v", fresh, err)
	}
	for _, k := range must3(c.Keyring().List(nil))(t) {
		if (k.State == api.RootKeyStateActive) != (k.KeyID == fresh.KeyID) {
			t.Errorf("key %+v", k)
		}
	}
	if _, err := c.Keyring().Delete(&api.KeyringDeleteOptions{KeyID: before[0].KeyID}, nil); err != nil {
		t.Errorf("delete the old key: %v", err)
	}
}

func nodeMeta(t *testing.T, c *api.Client) {
	node := must3(c.Nodes().List(nil))(t)[0].ID
	rack := "r1"
	if _, err := c.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: node, Meta: map[string]*string{"rack": &rack}}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := c.Nodes().Meta().Read(node, nil)
	if err != nil || got.Meta["rack"] != "r1" || got.Dynamic["rack"] == nil {
		t.Errorf("read %+v, %v", got, err)
	}
	eventually(t, "the servers to know of it", func() error {
		n, _, err := c.Nodes().Info(node, nil)
		if err == nil && n.Meta["rack"] != "r1" {
			err = errors.New("not yet")
		}
		return err
	})
}

func snapshots(t *testing.T, c *api.Client) {
	must3(c.Variables().Create(&api.Variable{Path: "kept", Items: api.VariableItems{"a": "b"}}, nil))(t)
	r, err := c.Operator().Snapshot(nil) // the client verifies the digest while reading
	if err != nil {
		t.Fatal(err)
	}
	saved, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	must3(c.Variables().Create(&api.Variable{Path: "gone", Items: api.VariableItems{"a": "b"}}, nil))(t)
	if _, err := c.Operator().SnapshotRestore(bytes.NewReader(saved), nil); err != nil {
		t.Fatal(err)
	}
	if list := must3(c.Variables().List(nil))(t); len(list) == 0 || list[len(list)-1].Path == "gone" {
		t.Errorf("after the restore: %+v", list)
	}
	if v := must3(c.Variables().Read("kept", nil))(t); v.Items["a"] != "b" {
		t.Errorf("read %+v", v)
	}
}

func metricNames(t *testing.T, c *api.Client) {
	eventually(t, "metrics of server, raft and node", func() error {
		m, _, err := c.Operator().MetricsSummary(nil)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, g := range m.Gauges {
			seen[g.Name] = true
		}
		for _, s := range m.Samples {
			seen[s.Name] = true
		}
		for _, name := range []string{
			"nomad.runtime.num_goroutines", "nomad.nomad.broker.total_ready", "nomad.client.allocations.running", "nomad.client.host.memory.total", "nomad.raft.commitTime",
		} {
			if !seen[name] {
				return errors.New("no " + name)
			}
		}
		return nil
	})
}

func monitor(t *testing.T, c *api.Client) {
	stop := make(chan struct{})
	defer close(stop)
	frames, failed := c.Agent().Monitor(stop, &api.QueryOptions{Params: map[string]string{"log_level": "debug"}})
	wait := time.After(2 * time.Minute)
	poke := time.NewTicker(200 * time.Millisecond)
	defer poke.Stop()
	for {
		select {
		case f := <-frames:
			if f != nil && len(f.Data) > 0 {
				return
			}
		case err := <-failed:
			t.Fatal(err)
		case <-poke.C: // causes a log line
			if _, _, err := c.Jobs().Register(&api.Job{ID: ptr("bad")}, nil); err == nil {
				t.Fatal("a job without groups was taken")
			}
		case <-wait:
			t.Fatal("no line was logged within 2 min")
		}
	}
}

func ptr[T any](v T) *T { return &v }

func dispatched(t *testing.T, c *api.Client) {
	job := api.NewBatchJob("param", "param", "global", 50)
	job.AddTaskGroup(api.NewTaskGroup("g", 1).AddTask(api.NewTask("t", "raw_exec").SetConfig("command", "/bin/true")))
	job.Datacenters = []string{"*"}
	job.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "optional", MetaRequired: []string{"who"}}
	if _, _, err := c.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs().Dispatch("param", nil, nil, "", nil); err == nil {
		t.Error("dispatched without the meta that is required")
	}
	out, _, err := c.Jobs().Dispatch("param", map[string]string{"who": "me"}, []byte("hello"), "", nil)
	if err != nil || !strings.HasPrefix(out.DispatchedJobID, "param/dispatch-") {
		t.Fatalf("%+v, %v", out, err)
	}
	eventually(t, "the dispatched job to end", func() error {
		j, _, err := c.Jobs().Info(out.DispatchedJobID, nil)
		if err == nil && *j.Status != "dead" {
			err = errors.New(*j.Status)
		}
		return err
	})
}

func searched(t *testing.T, c *api.Client) {
	found, _, err := c.Search().PrefixSearch("par", "jobs", nil)
	if err != nil || len(found.Matches["jobs"]) == 0 || found.Matches["jobs"][0] != "param" {
		t.Errorf("%+v, %v", found, err)
	}
	fuzzy, _, err := c.Search().FuzzySearch("aram", "all", nil)
	if err != nil || len(fuzzy.Matches["jobs"]) == 0 {
		t.Errorf("%+v, %v", fuzzy, err)
	}
}

func evals(t *testing.T, c *api.Client) {
	count, _, err := c.Evaluations().Count(nil)
	if err != nil || count.Count == 0 {
		t.Errorf("%+v, %v", count, err)
	}
	list := must3(c.Evaluations().List(&api.QueryOptions{Filter: `Type == "batch"`}))(t)
	if len(list) == 0 {
		t.Error("no evaluation of a batch job")
	}
	if _, err := c.Evaluations().Delete([]string{list[0].ID}, nil); err == nil {
		t.Error("deleted an evaluation while the broker runs")
	}
}

func pages(t *testing.T, c *api.Client) {
	all := must3(c.Evaluations().List(nil))(t)
	seen, token := 0, ""
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		page, meta, err := c.Evaluations().List((&api.QueryOptions{PerPage: 1, NextToken: token}).WithContext(ctx))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page)
		if token = meta.NextToken; token == "" || seen > len(all) {
			break
		}
	}
	if seen != len(all) {
		t.Errorf("%d evaluations over pages of one, %d at once", seen, len(all))
	}
	_, _, err := c.Jobs().List(&api.QueryOptions{Filter: "Nope =="})
	wantError(t, err, 400, "failed to read filter expression")
}

// must3 is must for calls that also return metadata.
func must3[T, M any](v T, _ M, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
