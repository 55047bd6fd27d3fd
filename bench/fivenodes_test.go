// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/update"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// BenchmarkFiveNodes prints what the raft log of a real server holds after 200 short allocs
// of a service were started, replaced by an update and stopped on five nodes. The nodes are
// simulated down to the tasks, whose times are drawn; their update buffers and sessions are
// the real ones. It runs with the priorities of updates, and with each update sent at the
// next tick of 200 ms.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench FiveNodes -benchtime 1x -v
func BenchmarkFiveNodes(b *testing.B) {
	bin := binariesOf(b)
	for _, mode := range []struct {
		name   string
		urgent bool
	}{{"priorities", false}, {"each-tick", true}} {
		b.Run(mode.name, func(b *testing.B) {
			for b.Loop() {
				fiveNodes(b, bin, mode.urgent)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func fiveNodes(b *testing.B, bin string, urgent bool) {
	const count = 200
	data := b.TempDir()
	a := launch(b, bin, fmt.Sprintf(`
bind_addr = "127.0.0.1"
data_dir  = %q
client {
  enabled           = true
  network_interface = "lo"
}
server { enabled = true }
`, data))
	var servers []string
	if err := a.get("/v1/agent/servers", &servers); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var nodes sync.WaitGroup
	var all []*shortNode
	for i := range 5 {
		n := &shortNode{b: b, i: i, urgent: urgent, ctx: ctx, rng: rand.New(rand.NewPCG(1, uint64(i))), allocs: map[string]*shortAlloc{}}
		all = append(all, n)
		nodes.Go(func() { n.run(servers[0]) })
	}
	a.awaitReady(b, 6)
	job := func(env string) any {
		return map[string]any{"Job": map[string]any{
			"ID": "short", "Name": "short", "Type": "service", "Datacenters": []string{"sim"}, "TaskGroups": []any{map[string]any{
				"Name": "g", "Count": count, "EphemeralDisk": map[string]any{"SizeMB": 10},
				"Update": map[string]any{"MaxParallel": 50, "MinHealthyTime": int64(time.Second)},
				"Tasks": []any{map[string]any{
					"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sleep", "args": []string{"60"}}, "Env": map[string]string{"V": env},
					"Resources": map[string]any{"CPU": 1, "MemoryMB": 10}, "LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1},
				}},
			}},
		}}
	}
	settled := func(status string) {
		a.waitLong(b, "a deployment that is "+status, func() bool {
			var d struct{ Status string }
			return a.get("/v1/job/short/deployment", &d) == nil && d.Status == status
		})
	}
	settle()
	before := a.index(b)
	a.mustPost(b, "/v1/jobs", job("1"))
	settled("successful")
	a.mustPost(b, "/v1/jobs", job("2"))
	a.waitLong(b, "the second deployment", func() bool {
		var d struct{ JobVersion int }
		return a.get("/v1/job/short/deployment", &d) == nil && d.JobVersion == 1
	})
	settled("successful")
	a.del(b, "/v1/job/short")
	a.waitComplete(b, 2*count)
	settle()
	cancel()
	nodes.Wait()
	a.stop()
	reportLog(b, filepath.Join(data, "server", "raft"), before, 2*count)
	batches := int64(0)
	for _, n := range all {
		batches += n.batches.Load()
	}
	b.ReportMetric(float64(batches), "batches")
}

// shortNode is a node that simulates the tasks of its allocs.
type shortNode struct {
	b      *testing.B
	i      int
	urgent bool // each update is sent at the next tick
	ctx    context.Context
	buffer *update.Buffer

	batches atomic.Int64 // that were sent

	mu     sync.Mutex
	rng    *rand.Rand
	allocs map[string]*shortAlloc
}

// shortAlloc is an alloc on a shortNode. stop is closed when it has to end.
type shortAlloc struct{ stop chan struct{} }

func (n *shortNode) run(server string) {
	c, err := rpc.Dial(server, nil)
	if err != nil {
		n.b.Error(err)
		return
	}
	defer c.Close()
	id := rpc.Identity{NodeID: simulatedID(n.i), SecretID: simulatedID(n.i + 100), Instance: "bench", Session: 1}
	lease, err := registered(n.ctx, c, simulatedNode(n.i, id))
	if err != nil {
		n.b.Error(err)
		return
	}
	n.buffer = update.New(func(ctx context.Context, batch []*model.AllocReport) (rpc.UpdateAnswer, error) {
		n.batches.Add(1)
		return c.UpdateAllocs(ctx, id, batch)
	}, hclog.NewNullLogger())
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { n.buffer.Run(n.ctx) })
	parts.Go(func() { keepBeating(n.ctx, n.b, c, id, lease) })
	err = c.Attach(n.ctx, id, nil, func(x *rpc.Assignments) error {
		digests := map[string]uint64{}
		var fresh []string
		n.mu.Lock()
		for _, y := range x.Set {
			digests[y.AllocID] = y.Reported
			switch known := n.allocs[y.AllocID]; {
			case known == nil:
				fresh = append(fresh, y.AllocID)
			case y.DesiredStatus != model.AllocDesiredStatusRun:
				select {
				case <-known.stop:
				default:
					close(known.stop)
				}
			}
		}
		n.mu.Unlock()
		n.buffer.Told(digests, x.Full)
		if len(fresh) == 0 {
			return nil
		}
		allocs, err := c.FetchAllocs(n.ctx, id, fresh)
		for _, alloc := range allocs {
			own := &shortAlloc{stop: make(chan struct{})}
			n.mu.Lock()
			n.allocs[alloc.ID] = own
			n.mu.Unlock()
			go n.live(alloc, own.stop)
		}
		return err
	})
	if n.ctx.Err() == nil {
		n.b.Error(err)
	}
}

// pause waits, and reports whether the node goes on.
func (n *shortNode) pause(d time.Duration) bool {
	select {
	case <-n.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// between draws a duration.
func (n *shortNode) between(low, high time.Duration) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return low + time.Duration(n.rng.Int64N(int64(high-low)))
}

// live reports the life of an alloc with one task: its directory, an artifact, the start,
// health after a second, and at the end the stop.
func (n *shortNode) live(assigned *model.Allocation, stop <-chan struct{}) {
	a := &model.Allocation{ID: assigned.ID, DeploymentID: assigned.DeploymentID, ClientStatus: "pending", ClientDescription: "No tasks have started"}
	task := &model.TaskState{State: "pending"}
	tell := func(change func(at *time.Time), events ...model.TaskEvent) {
		next, at := *task, time.Now().UTC().Truncate(time.Millisecond) // as nodes report times
		task = &next
		if change != nil {
			change(&at)
		}
		task.Events = slices.Clip(task.Events)
		for _, e := range events {
			e.Time = at.UnixNano()
			if e.Details == nil {
				e.Details = map[string]string{}
			}
			task.Events = append(task.Events, &e)
			task.LastEvent++
		}
		c := *a
		c.TaskStates = map[string]*model.TaskState{"t": task}
		a = &c
		n.buffer.Put(a, n.urgent)
	}
	tell(nil, model.EventReceived())
	n.pause(n.between(time.Millisecond, 20*time.Millisecond))
	tell(nil, model.EventSetup())
	n.pause(n.between(time.Millisecond, 20*time.Millisecond))
	tell(nil, model.EventDownloading())
	n.pause(n.between(100*time.Millisecond, 900*time.Millisecond))
	c := *a
	c.ClientStatus, c.ClientDescription = "running", "Tasks are running"
	c.NetworkStatus = &model.AllocNetworkStatus{}
	a = &c
	tell(func(at *time.Time) { task.State, task.StartedAt = "running", at }, model.EventStarted())
	if a.DeploymentID != "" {
		select {
		case <-stop:
		case <-time.After(time.Second):
			healthy := true
			c := *a
			c.DeploymentStatus = &model.AllocDeploymentStatus{Healthy: &healthy}
			a = &c
			tell(nil)
		}
	}
	select {
	case <-stop:
	case <-n.ctx.Done():
		return
	}
	tell(nil, model.EventKilling(5*time.Second))
	n.pause(n.between(50*time.Millisecond, 500*time.Millisecond))
	tell(nil, model.EventTerminated(143, 15, false, ""))
	n.pause(n.between(time.Millisecond, 10*time.Millisecond))
	done := *a
	done.ClientStatus, done.ClientDescription = "complete", "All tasks have completed"
	a = &done
	tell(func(at *time.Time) { task.State, task.FinishedAt = "dead", at }, model.EventKilled())
}
