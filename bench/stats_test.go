// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkStats measures the cost of collecting tasks' stats: the same agent and
// tasks without any consumer, and measured every second. It also reports the cost of
// the host stats collector as a separate process. bench/agent.sh builds the binaries
// and runs it.
func BenchmarkStats(b *testing.B) {
	bin := binariesOf(b)
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("tasks-%d", n), func(b *testing.B) {
			for b.Loop() {
				without := benchmarkStats(b, bin, n, false)
				with := benchmarkStats(b, bin, n, true)
				b.ReportMetric(without, "unwanted-cpu-%")
				b.ReportMetric(with, "every-second-cpu-%")
				b.ReportMetric(with-without, "cost-cpu-%")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("host", func(b *testing.B) {
		for b.Loop() {
			a := startAgent(b, bin)
			pid := 0
			a.wait(b, "the collector, which rests until somebody asks", func() bool {
				_ = a.get("/v1/client/stats", &struct{}{}) // it fails while the collector starts
				pid = a.processOf("stats-host")
				return pid != 0 && a.get("/v1/client/stats", &struct{}{}) == nil
			})
			before, start := processCPU(pid), time.Now()
			for time.Since(start) < 10*time.Second {
				if err := a.get("/v1/client/stats", &struct{}{}); err != nil {
					b.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			b.ReportMetric(100*(processCPU(pid)-before)/time.Since(start).Seconds(), "every-second-cpu-%")
			b.ReportMetric(float64(field(pid, "smaps_rollup", "Pss"))/1024, "pss-MiB")
			a.stop()
		}
		b.ReportMetric(0, "ns/op")
	})
}

// processOf returns the pid of the plugin, or 0 if it does not run.
func (a *agent) processOf(plugin string) int {
	for _, p := range a.pids() {
		name, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(p), "cmdline"))
		if err == nil && filepath.Base(string(name[:max(len(name)-1, 0)])) == plugin {
			return p
		}
	}
	return 0
}

// benchmarkStats returns the CPU usage of the agent and its helpers with n tasks, in
// percent of a core.
func benchmarkStats(b *testing.B, bin string, n int, publish bool) float64 {
	a := startAgentWith(b, bin, fmt.Sprintf("telemetry {\n  publish_allocation_metrics = %t\n}\n", publish))
	defer a.stop()
	a.run(b, "many", n, false)
	settle()
	settle()
	before, start := a.cpu(), time.Now()
	time.Sleep(15 * time.Second)
	return 100 * (a.cpu() - before) / time.Since(start).Seconds()
}
