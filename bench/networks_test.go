// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkNetworkAllocs measures how long 200 allocs with one port each take from their
// registration until all run, in the network of the machine and behind the bridge, and until
// they have ended again, on one agent of real binaries.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench NetworkAllocs -benchtime 3x
func BenchmarkNetworkAllocs(b *testing.B) {
	const n = 200
	source := builtBinaries(b)
	if os.Getuid() != 0 {
		b.Skip("networks are made by root")
	}
	bridge := fmt.Sprintf("drb%d", os.Getpid())
	defer func() { _ = exec.Command("ip", "link", "del", bridge).Run() }() // it may not exist
	a := startAgentWith(b, copyBinaries(b, source), fmt.Sprintf(`plugin "network-bridge" {
  config {
    bridge_network_name   = %q
    bridge_network_subnet = "10.218.0.0/20"
  }
}
`, bridge))
	a.wait(b, "the bridge is offered", func() bool { return a.offers("bridge") })
	for _, mode := range []string{"host", "bridge"} {
		b.Run(mode, func(b *testing.B) {
			var running, ended []float64
			for i := 0; b.Loop(); i++ {
				id := fmt.Sprintf("%s-%d", mode, i)
				job := jobOf(id, map[string]any{
					"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sleep", "args": []string{"3600"}},
				}, map[string]any{"Name": "sleep", "Count": n, "Networks": []any{map[string]any{"Mode": mode, "DynamicPorts": []any{map[string]any{"Label": "http", "To": 8080}}}}})
				begin := time.Now()
				a.mustPost(b, "/v1/jobs", job)
				a.wait(b, "all run", func() bool { return a.summary(id)["Running"] == n })
				running = append(running, ms(time.Since(begin)))
				settle()
				begin = time.Now()
				a.del(b, "/v1/job/"+id)
				a.wait(b, "all have ended", func() bool { return a.summary(id)["Complete"] == n })
				ended = append(ended, ms(time.Since(begin)))
				settle()
			}
			for what, took := range map[string][]float64{"running": running, "ended": ended} {
				slices.Sort(took)
				b.ReportMetric(took[0], what+"-min-ms")
				b.ReportMetric(took[len(took)/2], what+"-ms")
				b.ReportMetric(took[len(took)-1], what+"-max-ms")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// offers reports whether the agent's node offers a network.
func (a *agent) offers(mode string) bool {
	var nodes []struct{ ID string }
	if a.get("/v1/nodes", &nodes) != nil || len(nodes) != 1 {
		return false
	}
	var node struct {
		NodeResources struct{ NodeNetworks []struct{ Mode string } }
	}
	err := a.get("/v1/node/"+nodes[0].ID, &node)
	return err == nil && slices.ContainsFunc(node.NodeResources.NodeNetworks, func(n struct{ Mode string }) bool { return n.Mode == mode })
}
