// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// idleSessions is the number of nodes that BenchmarkIdleSessions simulates, of which
// silentNodes are lost in the end: half of them break off, as when the agent is killed, and half are silent on open
// connections, as when the machine is.
var idleSessions = cmp.Or(number(os.Getenv("DROVER_BENCH_SESSIONS")), 5000)

const silentNodes = 100

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// BenchmarkIdleSessions measures what idle nodes cost one server of the real binary in
// DROVER_BENCH_BIN: memory per node (the state's part included), processor and log
// entries, and then how long it takes until lost nodes are down, without a grace beyond
// their leases; the node of the agent itself is one more. Each simulated node speaks the real protocol over a connection of its own,
// and beats as often as its lease says. DROVER_BENCH_PROFILES is a folder for profiles of
// the server, and DROVER_BENCH_SESSIONS another number of nodes.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench IdleSessions -benchtime 1x
func BenchmarkIdleSessions(b *testing.B) {
	bin := binariesOf(b)
	for b.Loop() {
		a := launch(b, bin, fmt.Sprintf(`
bind_addr = "127.0.0.1"
data_dir  = %q
client {
  enabled           = true
  network_interface = "lo"
}
server {
  enabled         = true
  heartbeat_grace = "0s"
}
enable_debug = true
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
		silence := make([]chan struct{}, idleSessions) // closed: the node is lost
		for i := range idleSessions {
			joining.Add(1)
			silence[i] = make(chan struct{})
			nodes.Go(func() { simulate(ctx, b, i, servers[0], silence[i], joining.Done) })
		}
		joining.Wait()
		b.ReportMetric(time.Since(began).Seconds(), "join-s")
		time.Sleep(20 * time.Second) // the server's heap settles
		index, cpu, own, start := a.index(b), a.cpu(), processCPU(a.cmd.Process.Pid), time.Now()
		time.Sleep(time.Minute)
		took := time.Since(start)
		b.ReportMetric(100*(processCPU(a.cmd.Process.Pid)-own)/took.Seconds(), "%-of-a-core-own")
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(100*(a.cpu()-cpu)/took.Seconds(), "%-of-a-core")
		b.ReportMetric(float64(a.index(b)-index)/took.Minutes(), "entries/min")
		b.ReportMetric(float64(field(a.cmd.Process.Pid, "smaps_rollup", "Pss_Anon")-memory)/float64(idleSessions), "anonymous-kB/session")
		a.reportKept(b, "idle-", atOnce)
		if dir := os.Getenv("DROVER_BENCH_PROFILES"); dir != "" {
			for _, kind := range []string{"heap?gc=1", "goroutine?debug=1", "profile?seconds=20"} {
				name, _, _ := strings.Cut(kind, "?")
				a.saveProfile(b, kind, filepath.Join(dir, name))
			}
		}
		a.reportLost(b, silence)
		cancel()
		nodes.Wait()
		a.stop()
	}
}

// simulate is a node without allocs. joined is called once it has a session.
func simulate(all context.Context, b *testing.B, i int, server string, silence <-chan struct{}, joined func()) {
	ctx, lose := context.WithCancel(all)
	defer lose()
	c, err := rpc.Dial(server, nil)
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	id := rpc.Identity{NodeID: simulatedID(i), SecretID: fmt.Sprintf("10000000-0000-0000-0000-%012d", i), Instance: "bench", Session: 1}
	node := &model.Node{
		ID: id.NodeID, SecretID: id.SecretID, Instance: id.Instance, Session: id.Session, Name: fmt.Sprintf("sim-%d", i), Datacenter: "dc1", NodePool: "default",
		Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64", "unique.hostname": fmt.Sprintf("sim-%d", i)},
	}
	lease, err := registered(ctx, c, node)
	if err != nil {
		joined()
		if ctx.Err() == nil {
			b.Errorf("node %d: %v", i, err)
		}
		return
	}
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-silence:
				if i%2 == 0 {
					lose() // and nothing more is said on a connection that stays open otherwise
				}
				return
			case <-time.After(lease.BeatAfter()):
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
	select {
	case <-silence:
	default:
		if ctx.Err() == nil {
			b.Errorf("the session of node %d ended: %v", i, err)
		}
	}
}

func simulatedID(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

// reportLost loses some nodes, at moments of one lease, and reports how long it takes until
// they are down.
func (a *agent) reportLost(b *testing.B, silence []chan struct{}) {
	var lost sync.WaitGroup
	took := make([]time.Duration, silentNodes)
	for i := range silentNodes {
		lost.Go(func() {
			time.Sleep(time.Duration(i) * 8 * time.Second / silentNodes)
			close(silence[i])
			for start, index := time.Now(), "0"; time.Since(start) < time.Minute; {
				r, err := http.Get(a.url + "/v1/node/" + simulatedID(i) + "?wait=30s&index=" + index)
				if err != nil {
					b.Error(err)
					return
				}
				var node struct{ Status string }
				err = json.NewDecoder(r.Body).Decode(&node)
				r.Body.Close()
				if err != nil {
					b.Error(err)
					return
				}
				if took[i], index = time.Since(start), r.Header.Get("X-Nomad-Index"); node.Status == "down" {
					return
				}
			}
			b.Errorf("node %d is not down after a minute", i)
		})
	}
	lost.Wait()
	slices.Sort(took)
	b.ReportMetric(took[silentNodes/2].Seconds(), "down-p50-s")
	b.ReportMetric(took[silentNodes-1-silentNodes/100].Seconds(), "down-p99-s")
	b.ReportMetric(took[silentNodes-1].Seconds(), "down-max-s")
}
