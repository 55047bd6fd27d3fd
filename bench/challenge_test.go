// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/update"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// What BenchmarkChallenge runs unless it is told otherwise.
var (
	challengeNodes = cmp.Or(number(os.Getenv("DROVER_BENCH_NODES")), 500)
	challengeJobs  = cmp.Or(number(os.Getenv("DROVER_BENCH_JOBS")), 10)
	challengeCount = cmp.Or(number(os.Getenv("DROVER_BENCH_COUNT")), 1000)
)

// submitters is the number of clients that register jobs at the same time.
const submitters = 8

// BenchmarkChallenge registers jobs of many allocs with one durable server of the real binary in
// DROVER_BENCH_BIN, whose nodes are simulated down to the tasks: each speaks the real
// protocol over a connection of its own, with the real buffer of updates, and its tasks run at once. It
// reports the time from the first registration until all allocs are placed and until the server
// knows that all of them run, the server's processor time for each, and its memory. The
// nodes, the clients and the server share the machine. DROVER_BENCH_PROFILES is a folder for
// profiles of the server: of its heap, and of its first DROVER_BENCH_PROFILE_S (10) seconds.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench Challenge -benchtime 1x
//
// The two million of HashiCorp's C2M challenge on as many nodes as there:
//
//	DROVER_BENCH_NODES=6100 DROVER_BENCH_JOBS=2000 DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench Challenge -benchtime 1x -timeout 30m
func BenchmarkChallenge(b *testing.B) {
	bin := binariesOf(b)
	for b.Loop() {
		challenge(b, bin)
	}
	b.ReportMetric(0, "ns/op")
}

func challenge(b *testing.B, bin string) {
	data := b.TempDir()
	a := launch(b, bin, fmt.Sprintf(`
bind_addr = "127.0.0.1"
data_dir  = %q
client {
  enabled           = true
  network_interface = "lo"
}
server { enabled = true }
enable_debug = true
limits { rpc_max_conns_per_client = 0 }
`, data))
	var servers []string
	if err := a.get("/v1/agent/servers", &servers); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var nodes, joining sync.WaitGroup
	for i := range challengeNodes {
		joining.Add(1)
		nodes.Go(func() { (&instantNode{b: b, i: i}).run(ctx, servers[0], joining.Done) })
	}
	joining.Wait()
	a.awaitReady(b, challengeNodes+1)
	settle()
	pid := a.cmd.Process.Pid
	total := challengeJobs * challengeCount
	var profile sync.WaitGroup
	if dir := os.Getenv("DROVER_BENCH_PROFILES"); dir != "" {
		profile.Go(func() {
			a.saveProfile(b, fmt.Sprintf("profile?seconds=%d", cmp.Or(number(os.Getenv("DROVER_BENCH_PROFILE_S")), 10)), filepath.Join(dir, "profile"))
		})
	}
	began, cpu := time.Now(), processCPU(pid)
	a.submit(b)
	b.ReportMetric(time.Since(began).Seconds(), "registered-s")
	every := max(10*time.Millisecond, time.Duration(challengeJobs)*500*time.Microsecond) // the lists that are polled are of all jobs
	waitFor(b, 20*time.Minute, every, "the placement of all allocs", func() bool { placed, _ := a.progress(b); return placed == total })
	b.ReportMetric(time.Since(began).Seconds(), "placed-s")
	waitFor(b, 20*time.Minute, every, "allocs that all run", func() bool { _, running := a.progress(b); return running == total })
	b.ReportMetric(time.Since(began).Seconds(), "running-s")
	b.ReportMetric((processCPU(pid)-cpu)*1e6/float64(total), "us/alloc")
	b.ReportMetric(float64(field(pid, "status", "VmHWM"))/1024, "peak-MiB")
	profile.Wait()
	if dir := os.Getenv("DROVER_BENCH_PROFILES"); dir != "" {
		a.saveProfile(b, "heap?gc=1", filepath.Join(dir, "heap"))
	}
	time.Sleep(30 * time.Second)
	a.reportKept(b, "after-", atOnce)
	cancel()
	nodes.Wait()
	a.stop()
}

// submit registers all jobs.
func (a *agent) submit(b *testing.B) {
	numbers := make(chan int)
	var clients sync.WaitGroup
	for range submitters {
		clients.Go(func() {
			for i := range numbers {
				if err := a.post("/v1/jobs", challengeJob(i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range challengeJobs {
		numbers <- i
	}
	close(numbers)
	clients.Wait()
}

func challengeJob(i int) any {
	id := fmt.Sprintf("challenge-%d", i)
	return map[string]any{"Job": map[string]any{
		"ID": id, "Name": id, "Type": "service", "Datacenters": []string{"sim"}, "TaskGroups": []any{map[string]any{
			"Name": "g", "Count": challengeCount, "EphemeralDisk": map[string]any{"SizeMB": 10},
			"Tasks": []any{map[string]any{
				"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sleep", "args": []string{"600"}},
				"Resources": map[string]any{"CPU": 10, "MemoryMB": 10}, "LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1},
			}},
		}},
	}}
}

// progress returns how many allocs are placed, and how many the server knows to be running.
func (a *agent) progress(b *testing.B) (placed, running int) {
	b.Helper()
	var jobs []struct {
		JobSummary struct {
			Summary map[string]struct{ Starting, Running int }
		}
	}
	if err := a.get("/v1/jobs?prefix=challenge-", &jobs); err != nil {
		b.Fatal(err)
	}
	for _, j := range jobs {
		g := j.JobSummary.Summary["g"]
		placed, running = placed+g.Starting+g.Running, running+g.Running
	}
	return placed, running
}

// instantNode is a node whose tasks run as soon as they are assigned.
type instantNode struct {
	b     *testing.B
	i     int
	known map[string]bool
}

// run keeps a session until ctx ends. It calls joined once it has one.
func (n *instantNode) run(ctx context.Context, server string, joined func()) {
	c, err := rpc.Dial(server, nil)
	if err != nil {
		n.b.Error(err)
		return
	}
	defer c.Close()
	id := rpc.Identity{NodeID: simulatedID(n.i), SecretID: simulatedID(n.i + 1_000_000), Instance: "bench", Session: 1}
	lease, err := n.register(ctx, c, id)
	if err != nil {
		joined()
		if ctx.Err() == nil {
			n.b.Error(err)
		}
		return
	}
	buffer := update.New(func(ctx context.Context, batch []*model.AllocReport) (rpc.UpdateAnswer, error) {
		return c.UpdateAllocs(ctx, id, batch)
	}, hclog.NewNullLogger())
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { buffer.Run(ctx) })
	parts.Go(func() { keepBeating(ctx, n.b, c, id, lease) })
	n.known = map[string]bool{}
	err = c.Attach(ctx, id, nil, func(x *rpc.Assignments) error {
		if joined != nil {
			joined()
			joined = nil
		}
		return n.assigned(ctx, c, id, buffer, x)
	})
	if ctx.Err() == nil {
		n.b.Error(err)
	}
}

// register registers the node, at the time that the server asks for.
func (n *instantNode) register(ctx context.Context, c *rpc.Client, id rpc.Identity) (rpc.Lease, error) {
	node := simulatedNode(n.i, id)
	node.NodeResources.Cpu, node.NodeResources.Memory.MemoryMB = model.NodeCpuResources{CpuShares: 32000, TotalCpuCores: 16}, 32<<10
	return registered(ctx, c, node)
}

// assigned fetches new allocs and reports that their tasks run.
func (n *instantNode) assigned(ctx context.Context, c *rpc.Client, id rpc.Identity, buffer *update.Buffer, x *rpc.Assignments) error {
	digests := map[string]uint64{}
	came := map[string]bool{}
	for _, a := range x.Fresh {
		came[a.ID] = true
	}
	var missing []string
	for _, y := range x.Set {
		digests[y.AllocID] = y.Reported
		if !n.known[y.AllocID] && !came[y.AllocID] {
			missing = append(missing, y.AllocID)
		}
		n.known[y.AllocID] = true
	}
	buffer.Told(digests, x.Full)
	allocs := x.Fresh
	if len(missing) > 0 {
		fetched, err := c.FetchAllocs(ctx, id, missing)
		if err != nil {
			return err
		}
		allocs = slices.Concat(allocs, fetched)
	}
	for _, a := range allocs {
		buffer.Put(runningAt(a, time.Now().UTC()), false)
	}
	return nil
}

// runningAt returns what a node reports of an alloc whose task was started at a time.
func runningAt(assigned *model.Allocation, at time.Time) *model.Allocation {
	task := &model.TaskState{State: model.TaskStateRunning, StartedAt: &at}
	for _, e := range []model.TaskEvent{model.EventReceived(), model.EventSetup(), model.EventStarted()} {
		e.Time = at.UnixNano()
		if e.Details == nil {
			e.Details = map[string]string{}
		}
		task.Events = append(task.Events, &e)
		task.LastEvent++
	}
	return &model.Allocation{
		ID: assigned.ID, DeploymentID: assigned.DeploymentID, ClientStatus: model.AllocClientStatusRunning, ClientDescription: "Tasks are running",
		NetworkStatus: &model.AllocNetworkStatus{}, TaskStates: map[string]*model.TaskState{"t": task},
	}
}
