// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pacer"
	"github.com/drover-project/drover/core/server"
)

// replayedJob is the number of allocs per job in the log that is replayed.
const replayedJob = 100

// BenchmarkReplay measures the start of a server with 50,000 dead allocs in its log, or
// 100,000 that run, in a separate process: the time until it is the leader and has applied
// its log, and its peak memory. "killed" replays the log, "stopped" loads the snapshot that
// a server takes at an orderly shutdown. Run it with -benchtime 1x.
func BenchmarkReplay(b *testing.B) {
	for _, c := range []struct{ allocs, end string }{{"50000 dead", "killed"}, {"50000 dead", "stopped"}, {"100000 running", "killed"}, {"100000 running", "stopped"}} {
		b.Run(strings.ReplaceAll(c.allocs, " ", "-")+"/"+c.end, func(b *testing.B) {
			for b.Loop() {
				dir := b.TempDir()
				b.Setenv("DROVER_BENCH_ALLOCS", c.allocs)
				inChild(b, "write", dir, c.end)
				out := inChild(b, "read", dir, "killed")
				b.ReportMetric(figure(b, out, "ms"), "ms")
				b.ReportMetric(figure(b, out, "peakMB"), "peakMB")
				b.ReportMetric(figure(b, out, "allocs"), "allocs")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func inChild(b *testing.B, act, dir, end string) string {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReplayChild$", "-test.v")
	cmd.Env = append(os.Environ(), "DROVER_BENCH_REPLAY="+act, "DROVER_BENCH_DIR="+dir, "DROVER_BENCH_END="+end)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func figure(b *testing.B, out, unit string) float64 {
	b.Helper()
	m := regexp.MustCompile(`([0-9]+) ` + unit + `\b`).FindStringSubmatch(out)
	if m == nil {
		b.Fatalf("no %s in %s", unit, out)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// TestReplayChild is the process that BenchmarkReplay measures.
func TestReplayChild(t *testing.T) {
	act := os.Getenv("DROVER_BENCH_REPLAY")
	if act == "" {
		t.Skip("only BenchmarkReplay runs this")
	}
	pacer.Start(durable.ProfileServer.Buffer()) // as in the agent, which starts
	began := time.Now()
	// No snapshot is taken meanwhile, as if all of it had happened within two minutes.
	s, err := server.New(server.Config{DataDir: os.Getenv("DROVER_BENCH_DIR"), SnapshotThreshold: 1 << 40, GC: gc.DefaultThresholds(), HeartbeatTTL: time.Hour, Workers: 1, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if err := s.WaitLeader(context.Background()); err != nil {
		t.Fatal(err)
	}
	if act == "write" {
		fill(t, s)
	} else {
		_, _, _, rows := s.Stats()
		fmt.Printf("%d ms, %d peakMB, %d allocs\n", time.Since(began).Milliseconds(), peak(t), rows["allocs"])
	}
	if os.Getenv("DROVER_BENCH_END") == "stopped" {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// peak returns the peak memory of this process in MB.
func peak(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+([0-9]+) kB`).FindSubmatch(status)
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kb / 1000
}

// fill registers jobs, and reports that they run and end.
func fill(t *testing.T, s *server.Server) {
	propose := func(cmd fsm.Command) {
		t.Helper()
		data, err := fsm.Encode(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Raft().Propose(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	propose(&fsm.RegisterNode{Node: &model.Node{ID: "n1", SecretID: "s", Name: "n1", Status: model.NodeStatusReady, NodePool: "default", Datacenter: "dc1",
		SchedulingEligibility: model.NodeSchedulingEligible}})
	view := func() uint64 { return s.Endpoint().Store.View().Index() }
	count, end, _ := strings.Cut(os.Getenv("DROVER_BENCH_ALLOCS"), " ")
	statuses := []string{model.AllocClientStatusRunning}
	if end == "dead" {
		statuses = append(statuses, model.AllocClientStatusComplete)
	}
	id := 0
	for j := range number(count) / replayedJob {
		name := fmt.Sprintf("job-%d", j)
		propose(&fsm.UpsertJob{Job: &model.Job{
			ID: name, Name: name, Namespace: "default", Region: "global", Type: "batch", Priority: 50, NodePool: "default", Datacenters: []string{"*"},
			TaskGroups: []*model.TaskGroup{{Name: "g", Count: replayedJob, Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Config: map[string]any{"command": "/bin/true"}}}}},
		}})
		plan := &model.Plan{Namespace: "default", JobID: name, SnapshotIndex: view(), EvalID: name}
		var ids []string
		for i := range replayedJob {
			id++
			ids = append(ids, fmt.Sprintf("%08x-0000-4000-8000-%012x", id, id))
			plan.Place = append(plan.Place, &model.Allocation{
				ID: ids[i], EvalID: name, NodeID: "n1", NodeName: "n1", TaskGroup: "g", Name: model.AllocName(name, "g", i), DesiredStatus: "run", ClientStatus: "pending",
				AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {Cpu: model.AllocatedCpuResources{CpuShares: 100}, Memory: model.AllocatedMemoryResources{MemoryMB: 100}}}, Shared: model.AllocatedSharedResources{DiskMB: 300}},
				Metrics:            &model.AllocMetric{NodesEvaluated: 1, NodesInPool: 1},
			})
		}
		propose(&fsm.ApplyPlan{VerifiedIndex: plan.SnapshotIndex, Plan: plan})
		for _, status := range statuses {
			cmd := &fsm.UpdateAllocsFromClient{At: time.Now().UnixNano()}
			for _, id := range ids {
				cmd.Reports = append(cmd.Reports, report(id, status))
			}
			propose(cmd)
		}
	}
}

// report returns a node's report that an alloc runs or has ended.
func report(id, status string) *model.AllocReport {
	now, failed := time.Now().UnixNano(), false
	task := &model.TaskReport{State: model.TaskStateRunning, StartedAt: &now, Events: []*model.TaskEvent{
		{Type: "Received", Time: now, Message: "Task received by client"}, {Type: "Task Setup", Time: now, Message: "Building Task Directory"}, {Type: "Started", Time: now, Message: "Task started by client"},
	}}
	if status == model.AllocClientStatusComplete {
		task = &model.TaskReport{State: model.TaskStateDead, Failed: failed, StartedAt: &now, FinishedAt: &now, Before: 3, Events: []*model.TaskEvent{{Type: "Terminated", Time: now, Message: "Exit Code: 0"}}}
	}
	return &model.AllocReport{ID: id, ClientStatus: status, Tasks: map[string]*model.TaskReport{"t": task}}
}
