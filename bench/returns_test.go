// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// returningNodes is the number of nodes of BenchmarkReturns.
var returningNodes = cmp.Or(number(os.Getenv("DROVER_BENCH_SESSIONS")), 10000)

// BenchmarkReturns measures three servers of the real binary in DROVER_BENCH_BIN whose
// leader, with which all nodes have their sessions, is killed: all of them come back at
// once. It reports after what time half, 99 % and all of the nodes had a session again,
// when the first write was acknowledged, how many terms there were until the end (one more
// leader is one term), and how many nodes were taken for down. Each node speaks the real
// protocol over a connection of its own. DROVER_BENCH_SESSIONS is another number of nodes, and
// DROVER_BENCH_MULTIPLIER the servers' raft_multiplier, for machines that others use: without
// it leaders change there, whether or not nodes return.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench Returns -benchtime 1x -timeout 20m
func BenchmarkReturns(b *testing.B) {
	bin := binariesOf(b)
	for b.Loop() {
		servers, addresses := threeServers(b, bin)
		lead := leaderOf(b, servers, addresses)
		first := slices.Concat(addresses[lead:], addresses[:lead]) // all nodes are with the leader
		ctx, cancel := context.WithCancel(b.Context())
		var nodes sync.WaitGroup
		there := &arrivals{}
		began := there.expect()
		for i := range returningNodes {
			nodes.Go(func() { returning(ctx, b, i, first, there) })
		}
		there.all(b)
		b.ReportMetric(time.Since(began).Seconds(), "join-s")
		other := servers[(lead+1)%len(servers)]
		term := other.term(b)
		servers[lead].kill()
		began = there.expect()
		wrote := make(chan time.Duration, 1)
		go func() {
			for ctx.Err() == nil && other.post("/v1/system/reconcile/summaries", nil) != nil {
				time.Sleep(5 * time.Millisecond)
			}
			wrote <- time.Since(began)
		}()
		took := there.all(b)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric((<-wrote).Seconds(), "first-write-s")
		b.ReportMetric(took[len(took)/2].Seconds(), "back-p50-s")
		b.ReportMetric(took[len(took)-1-len(took)/100].Seconds(), "back-p99-s")
		b.ReportMetric(took[len(took)-1].Seconds(), "back-max-s")
		b.ReportMetric(float64(other.term(b)-term), "terms")
		var list []struct{ Status string }
		if err := other.get("/v1/nodes", &list); err != nil {
			b.Fatal(err)
		}
		down := 0
		for _, n := range list {
			if n.Status != model.NodeStatusReady {
				down++
			}
		}
		b.ReportMetric(float64(down), "not-ready")
		cancel()
		nodes.Wait()
		for _, s := range servers {
			s.stop()
		}
	}
}

// threeServers starts a cluster, and returns its servers and their rpc addresses.
func threeServers(b *testing.B, bin string) (servers []*agent, addresses []string) {
	ports := testkit.FreePorts(b, 9)
	var join []string
	for i := range 3 {
		join = append(join, fmt.Sprintf("%q", fmt.Sprint("127.0.0.1:", ports[6+i])))
	}
	for i := range 3 {
		dir := b.TempDir()
		text := fmt.Sprintf(`
name      = "s%d"
data_dir  = %q
bind_addr = "127.0.0.1"
log_level = "WARN"
ports {
  http = %d
  rpc  = %d
  serf = %d
}
server {
  enabled          = true
  bootstrap_expect = 3
  raft_multiplier  = %d
  server_join { retry_join = [%s] }
}
limits { rpc_max_conns_per_client = 0 }
`, i, filepath.Join(dir, "data"), ports[i], ports[3+i], ports[6+i], cmp.Or(number(os.Getenv("DROVER_BENCH_MULTIPLIER")), 1), strings.Join(join, ", "))
		conf := filepath.Join(dir, "server.hcl")
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		a := &agent{bin: bin, url: fmt.Sprintf("http://127.0.0.1:%d", ports[i]), cmd: exec.Command(filepath.Join(bin, "drover"), "agent", "-config", conf)}
		a.cmd.Stderr = os.Stderr
		if err := a.cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(a.stop)
		servers, addresses = append(servers, a), append(addresses, fmt.Sprint("127.0.0.1:", ports[3+i]))
	}
	var health struct{ Healthy bool }
	servers[0].waitLong(b, "three healthy servers", func() bool { return servers[0].get("/v1/operator/autopilot/health", &health) == nil && health.Healthy })
	return servers, addresses
}

func leaderOf(b *testing.B, servers []*agent, addresses []string) int {
	b.Helper()
	var address string
	if err := servers[0].get("/v1/status/leader", &address); err != nil {
		b.Fatal(err)
	}
	i := slices.Index(addresses, address)
	if i < 0 {
		b.Fatalf("%s leads, and the servers are %v", address, addresses)
	}
	return i
}

// term returns the term of raft that a server is in.
func (a *agent) term(b *testing.B) int {
	b.Helper()
	var self struct{ Stats map[string]map[string]string }
	if err := a.get("/v1/agent/self", &self); err != nil {
		b.Fatal(err)
	}
	return number(self.Stats["raft"]["term"])
}

// kill ends the agent's process at once.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill() // it has not been waited for
	_ = a.cmd.Wait()         // says that it was killed
}

// arrivals notes when nodes have a session. A node that a busy machine had already moved to
// another server keeps its session there when the leader is killed: it is there as soon as
// that server has answered a heartbeat.
type arrivals struct {
	mu    sync.Mutex
	began time.Time
	took  map[int]time.Duration
}

// expect begins anew, and returns when.
func (a *arrivals) expect() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began, a.took = time.Now(), map[int]time.Duration{}
	return a.began
}

// note notes that a server has answered a node's request that was sent at a time.
func (a *arrivals) note(i int, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.took[i]; !known && !sent.Before(a.began) {
		a.took[i] = time.Since(a.began)
	}
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.took)
}

// all waits until every node is there, and returns when each was.
func (a *arrivals) all(b *testing.B) []time.Duration {
	b.Helper()
	for limit := time.Now().Add(5 * time.Minute); a.count() < returningNodes; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			b.Fatalf("%d of %d nodes have a session after five minutes", a.count(), returningNodes)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Values(a.took))
}

// returning is a node that keeps a session as agents do: it registers again when a session
// has ended, and waits as long as servers ask for.
func returning(ctx context.Context, b *testing.B, i int, servers []string, there *arrivals) {
	c, err := rpc.DialAny(servers, nil)
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	for session := uint64(1); ctx.Err() == nil; session++ {
		id := rpc.Identity{NodeID: simulatedID(i), SecretID: simulatedID(i + 1_000_000), Instance: "bench", Session: session}
		node := &model.Node{
			ID: id.NodeID, SecretID: id.SecretID, Instance: id.Instance, Session: session, Name: fmt.Sprintf("sim-%d", i), Datacenter: "dc1", NodePool: "default",
			Attributes: map[string]string{"kernel.name": "linux", "unique.hostname": fmt.Sprintf("sim-%d", i)},
		}
		err := oneSession(ctx, c, id, node, func(sent time.Time) { there.note(i, sent) })
		select {
		case <-ctx.Done():
		case <-time.After(max(errdefs.RetryAfter(err), 100*time.Millisecond)):
		}
	}
}

// oneSession registers a node and keeps its session until it ends. It calls answered with
// the time of each request that a server has answered.
func oneSession(ctx context.Context, c *rpc.Client, id rpc.Identity, node *model.Node, answered func(sent time.Time)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	lease, err := c.Register(call, node)
	cancel()
	if err != nil {
		return err
	}
	var beats sync.WaitGroup
	defer beats.Wait()
	defer end()
	beats.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lease.BeatAfter()):
				call, cancel := context.WithTimeout(ctx, lease.BeatAfter())
				sent := time.Now()
				if next, err := c.Beat(call, id); err == nil {
					lease = next
					answered(sent)
				}
				cancel()
			}
		}
	})
	attached := time.Now()
	return c.Attach(ctx, id, nil, func(*rpc.Assignments) error {
		answered(attached)
		return nil
	})
}
