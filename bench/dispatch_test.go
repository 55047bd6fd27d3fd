// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkDispatch measures 10,000 dispatches of one parameterized job by 20 HTTP
// clients on an agent of the real binaries in DROVER_BENCH_BIN: accepted dispatches
// per second, the duration of a call, and the time until the last evaluation is
// complete. The children have a count of 0, so that only dispatching is measured.
// "dev" keeps the log in memory, "durable" writes it to disk.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench Dispatch -benchtime 1x
func BenchmarkDispatch(b *testing.B) {
	bin := binariesOf(b)
	b.Run("dev", func(b *testing.B) { benchmarkDispatch(b, func() *agent { return startAgent(b, bin) }) })
	b.Run("durable", func(b *testing.B) { benchmarkDispatch(b, func() *agent { return startDurable(b, bin) }) })
}

const (
	dispatches = 10_000
	clients    = 20
)

func benchmarkDispatch(b *testing.B, start func() *agent) {
	for b.Loop() {
		a := start()
		a.registerHook(b)
		before := a.cpu()
		took, total := a.dispatchAll(b)
		settled := a.awaitChildren(b)
		slices.Sort(took)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(dispatches/total.Seconds(), "dispatches/s")
		b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
		b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
		b.ReportMetric(ms(took[len(took)-1]), "max-ms")
		b.ReportMetric(ms(settled), "last-eval-ms-after")
		b.ReportMetric(1e6*(a.cpu()-before)/dispatches, "agent-cpu-us/dispatch")
		a.reportUse(b, "after-")
		a.stop()
	}
}

// startDurable starts an agent with its log on disk.
func startDurable(b *testing.B, bin string) *agent {
	b.Helper()
	return launch(b, bin, fmt.Sprintf(`
bind_addr = "127.0.0.1"
data_dir  = %q
client {
  enabled           = true
  network_interface = "lo"
}
server { enabled = true }
`, b.TempDir()))
}

// registerHook registers the parameterized job.
func (a *agent) registerHook(b *testing.B) {
	b.Helper()
	job := map[string]any{"Job": map[string]any{
		"ID": "hook", "Name": "hook", "Type": "batch", "Datacenters": []string{"*"},
		"ParameterizedJob": map[string]any{"Payload": "optional", "MetaRequired": []string{"who"}},
		"TaskGroups": []any{map[string]any{"Name": "g", "Count": 0, "Tasks": []any{map[string]any{
			"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/true"},
		}}}},
	}}
	a.mustPost(b, "/v1/jobs", job)
}

// dispatchAll makes all dispatches and returns the duration of each call and of all
// together.
func (a *agent) dispatchAll(b *testing.B) ([]time.Duration, time.Duration) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	took := make([]time.Duration, dispatches)
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range clients {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= dispatches {
					return
				}
				body := fmt.Sprintf(`{"Payload":"aGVsbG8=","Meta":{"who":"client-%d"}}`, i)
				begin := time.Now()
				r, err := client.Post(a.url+"/v1/job/hook/dispatch", "application/json", bytes.NewReader([]byte(body)))
				if err != nil {
					failed.Add(1)
					continue
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				r.Body.Close()
				took[i] = time.Since(begin)
			}
		})
	}
	wg.Wait()
	total := time.Since(start)
	if n := failed.Load(); n > 0 {
		b.Fatalf("%d of %d dispatches failed", n, dispatches)
	}
	return took, total
}

// awaitChildren waits until every child is evaluated and dead.
func (a *agent) awaitChildren(b *testing.B) time.Duration {
	b.Helper()
	start := time.Now()
	a.wait(b, "the end of all children", func() bool {
		var s struct{ Children struct{ Dead int } }
		return a.get("/v1/job/hook/summary", &s) == nil && s.Children.Dead == dispatches
	})
	return time.Since(start)
}
