// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// idleSessions is how many nodes BenchmarkIdleSessions simulates.
const idleSessions = 5000

// BenchmarkIdleSessions measures what idle nodes cost one server of the real binary in
// DROVER_BENCH_BIN: memory per node (the state's part included), processor and log
// entries. Each simulated node speaks the real protocol over a connection of its own, and
// beats as often as its lease says.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench IdleSessions -benchtime 1x
func BenchmarkIdleSessions(b *testing.B) {
	source := os.Getenv("DROVER_BENCH_BIN")
	if source == "" {
		b.Skip("DROVER_BENCH_BIN names no folder of binaries: make build, then name bin/")
	}
	bin := copyBinaries(b, source)
	for b.Loop() {
		a := launch(b, bin, fmt.Sprintf(`
bind_addr = "127.0.0.1"
data_dir  = %q
client {
  enabled           = true
  network_interface = "lo"
}
server { enabled = true }
limits { rpc_max_conns_per_client = 0 }
`, b.TempDir()))
		var servers []string
		if err := a.get("/v1/agent/servers", &servers); err != nil {
			b.Fatal(err)
		}
		memory := field(a.cmd.Process.Pid, "smaps_rollup", "Pss_Anon")
		ctx, cancel := context.WithCancel(b.Context())
		var nodes, joining sync.WaitGroup
		began := time.Now()
		for i := range idleSessions {
			joining.Add(1)
			nodes.Go(func() { simulate(ctx, b, i, servers[0], joining.Done) })
		}
		joining.Wait()
		b.ReportMetric(time.Since(began).Seconds(), "join-s")
		time.Sleep(20 * time.Second) // the server's heap settles
		index, cpu, start := a.index(b), a.cpu(), time.Now()
		time.Sleep(time.Minute)
		took := time.Since(start)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(100*(a.cpu()-cpu)/took.Seconds(), "%-of-a-core")
		b.ReportMetric(float64(a.index(b)-index)/took.Minutes(), "entries/min")
		b.ReportMetric(float64(field(a.cmd.Process.Pid, "smaps_rollup", "Pss_Anon")-memory)/idleSessions, "anonymous-kB/session")
		cancel()
		nodes.Wait()
		a.stop()
	}
}

// simulate is a node without allocs. joined is called once it has a session.
func simulate(ctx context.Context, b *testing.B, i int, server string, joined func()) {
	c, err := rpc.Dial(server, nil)
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	id := rpc.Identity{NodeID: fmt.Sprintf("00000000-0000-0000-0000-%012d", i), SecretID: fmt.Sprintf("10000000-0000-0000-0000-%012d", i), Instance: "bench", Session: 1}
	node := &model.Node{
		ID: id.NodeID, SecretID: id.SecretID, Instance: id.Instance, Session: id.Session, Name: fmt.Sprintf("sim-%d", i), Datacenter: "dc1", NodePool: "default",
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64", "unique.hostname": fmt.Sprintf("sim-%d", i)},
	}
	var lease rpc.Lease
	for {
		if lease, err = c.Register(ctx, node); err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		if !errdefs.IsResourceExhausted(err) && !errdefs.IsUnavailable(err) {
			b.Errorf("node %d: %v", i, err)
			joined()
			return
		}
		time.Sleep(max(errdefs.RetryAfter(err), 100*time.Millisecond))
	}
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(lease.TTL / 3):
				if next, err := c.Beat(ctx, id); err == nil {
					lease = next
				} else if ctx.Err() == nil {
					b.Errorf("node %d: %v", i, err)
				}
			}
		}
	}()
	err = c.Attach(ctx, id, nil, func(*rpc.Assignments) error {
		if joined != nil {
			joined()
			joined = nil
		}
		return nil
	})
	if ctx.Err() == nil {
		b.Errorf("the session of node %d ended: %v", i, err)
	}
}
