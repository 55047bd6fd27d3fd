// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"bufio"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkFollow measures the time from a task's write to the reader of `alloc logs
// -f`: the task writes the time, 50 lines per second, 1,000 lines. It needs
// DROVER_BENCH_BIN, like BenchmarkAgent:
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench Follow -benchtime 1x
func BenchmarkFollow(b *testing.B) {
	bin := binariesOf(b)
	const lines = 1000
	var took []float64
	for b.Loop() {
		a := startAgent(b, bin)
		id := a.runScript(b, "clock", "while true; do date +%s%N; sleep 0.02; done")
		took = append(took, a.follow(b, id, lines)...)
		a.stop()
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[len(took)/2], "median-ms")
	b.ReportMetric(took[len(took)*99/100], "p99-ms")
	b.ReportMetric(took[len(took)-1], "max-ms")
}

// runScript runs a shell script as a job of one task and returns its alloc.
func (a *agent) runScript(b *testing.B, id, script string) string {
	b.Helper()
	job := map[string]any{"Job": map[string]any{"ID": id, "Name": id, "Type": "service", "Datacenters": []string{"*"}, "TaskGroups": []any{map[string]any{
		"Name": "g", "Count": 1,
		"Tasks": []any{map[string]any{
			"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sh", "args": []string{"-c", script}},
			"Resources": map[string]any{"CPU": 50, "MemoryMB": 32},
		}},
	}}}}
	a.mustPost(b, "/v1/jobs", job)
	var allocs []struct{ ID, ClientStatus string }
	a.wait(b, "a running task", func() bool {
		return a.get("/v1/job/"+id+"/allocations", &allocs) == nil && len(allocs) == 1 && allocs[0].ClientStatus == "running"
	})
	return allocs[0].ID
}

// follow reads lines that contain the time at which they were written, and returns
// the age of each in ms.
func (a *agent) follow(b *testing.B, alloc string, lines int) []float64 {
	b.Helper()
	r, err := http.Get(a.url + "/v1/client/fs/logs/" + alloc + "?task=t&type=stdout&follow=true&origin=end&plain=true")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	var took []float64
	in := bufio.NewScanner(r.Body)
	for first := true; len(took) < lines && in.Scan(); first = false {
		now := time.Now().UnixNano()
		written, err := strconv.ParseInt(in.Text(), 10, 64)
		if err != nil || first {
			continue // the first line may be old or incomplete
		}
		took = append(took, float64(now-written)/1e6)
	}
	if len(took) < lines {
		b.Fatalf("the log ended after %d lines: %v", len(took), in.Err())
	}
	return took
}
