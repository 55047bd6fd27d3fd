// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cycledJobs is the number of jobs that run and are collected.
const cycledJobs = 1000

// BenchmarkCycledJobs measures the memory that an agent keeps after its work has
// ended: the memory of a fresh agent at rest after its first ten jobs, of the same agent
// at rest after 1,000 short jobs have run and were collected, and after 1,000 more.
// DROVER_BENCH_HEAP is a file for the heap profile at the end; that of the start gets
// the suffix .before.
func BenchmarkCycledJobs(b *testing.B) {
	source := builtBinaries(b)
	for b.Loop() {
		a := startAgent(b, copyBinaries(b, source))
		a.cycle(b, 10)
		a.collect(b)
		a.reportKept(b, "before-", atRest)
		if file := os.Getenv("DROVER_BENCH_HEAP"); file != "" {
			a.saveHeap(b, file+".before")
		}
		for _, prefix := range []string{"after-", "again-"} { // a leak grows in both rounds
			began := processCPU(a.cmd.Process.Pid)
			a.cycle(b, cycledJobs)
			b.ReportMetric(processCPU(a.cmd.Process.Pid)-began, prefix+"cpu-s")
			a.reportKept(b, "busy-", atOnce)
			a.collect(b)
			a.reportKept(b, prefix, atRest)
		}
		if file := os.Getenv("DROVER_BENCH_HEAP"); file != "" {
			a.saveHeap(b, file)
		}
		a.stop()
	}
	b.ReportMetric(0, "ns/op")
}

// cycle runs n batch jobs with one task that ends at once, eight jobs at a time, and
// waits until all are dead.
func (a *agent) cycle(b *testing.B, n int) {
	b.Helper()
	ids := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range ids {
				if err := a.post("/v1/jobs", batchJob(fmt.Sprintf("cycled-%d", i), 1, map[string]any{"true": "true"}, nil)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		ids <- i
	}
	close(ids)
	wg.Wait()
	a.waitLong(b, "the end of all jobs", func() bool {
		var jobs []struct{ Status string }
		if err := a.get("/v1/jobs", &jobs); err != nil {
			b.Fatal(err)
		}
		return !slices.ContainsFunc(jobs, func(j struct{ Status string }) bool { return j.Status != "dead" })
	})
}

// collect triggers garbage collection on the server and on the node, and waits until
// all ended objects are gone.
func (a *agent) collect(b *testing.B) {
	b.Helper()
	for _, path := range []string{"/v1/system/gc", "/v1/client/gc"} {
		r, err := http.NewRequest(http.MethodPut, a.url+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		answer.Body.Close()
	}
	a.wait(b, "an empty list of jobs", func() bool {
		var jobs []struct{ ID string }
		return a.get("/v1/jobs", &jobs) == nil && len(jobs) == 0
	})
}

// moments says when the memory of an agent is read.
type moments struct {
	after time.Duration // from now until it is read first
	times int           // how often it is read, five seconds apart
}

// An agent at rest wakes now and then, for a look at devices or a write to a store, and
// uses some megabytes for seconds. So the memory at rest is the median of the half minute
// around a minute of rest.
var (
	atOnce = moments{times: 1}
	atRest = moments{after: 45 * time.Second, times: 7}
)

// reportKept reports the memory of the agent's process, and of the agent with its
// helpers.
func (a *agent) reportKept(b *testing.B, prefix string, when moments) {
	b.Helper()
	pid := a.cmd.Process.Pid
	read := map[string]func() float64{ // what RSS has beside the anonymous part is program and mapped files
		"rss-MiB":  func() float64 { return float64(field(pid, "status", "VmRSS")) / 1024 },
		"anon-MiB": func() float64 { return float64(field(pid, "status", "RssAnon")) / 1024 },
		"pss-MiB":  func() float64 { return float64(a.pss()) / (1 << 20) },
	}
	seen := map[string][]float64{}
	time.Sleep(when.after)
	for n := range when.times {
		if n > 0 {
			time.Sleep(5 * time.Second)
		}
		for metric, value := range read {
			seen[metric] = append(seen[metric], value())
		}
	}
	for metric, values := range seen {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], prefix+metric)
		b.Logf("%s%s from %.1f to %.1f", prefix, metric, values[0], values[len(values)-1])
	}
	mappings := largest(pid) // the requests below use memory themselves
	var self struct {
		Stats map[string]map[string]string `json:"stats"`
	}
	if err := a.get("/v1/agent/self", &self); err != nil {
		b.Fatal(err)
	}
	b.Logf("%s runtime: %v, largest mappings:%s", prefix, self.Stats["runtime"], mappings)
	b.Logf("%s heap:%s", prefix, a.heapWords(b))
}

// heapWords returns how the Go runtime divides its memory: what it says in the text form of a
// heap profile.
func (a *agent) heapWords(b *testing.B) string {
	b.Helper()
	r, err := http.Get(a.url + "/v1/agent/pprof/heap?debug=1")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		b.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] != "#" || f[2] != "=" {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil && slices.Contains([]string{"HeapAlloc", "HeapSys", "HeapIdle", "HeapInuse", "HeapReleased", "Stack", "MSpan", "MCache", "BuckHashSys", "GCSys", "OtherSys", "NumGC"}, f[1]) {
			fmt.Fprintf(&out, " %s %.1f", f[1], float64(n)/(1<<20))
		}
	}
	return out.String()
}

func (a *agent) saveHeap(b *testing.B, file string) {
	b.Helper()
	a.saveProfile(b, "heap?gc=1", file)
}

func (a *agent) saveProfile(b *testing.B, kind, file string) {
	b.Helper()
	r, err := http.Get(a.url + "/v1/agent/pprof/" + kind)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, r.Body); err != nil {
		b.Fatal(err)
	}
}

// largest returns the mappings of a process that use the most memory.
func largest(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return err.Error()
	}
	var name string
	sizes := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		switch {
		case strings.Contains(f[0], "-"):
			name = "anonymous"
			if len(f) > 5 {
				name = filepath.Join(filepath.Base(filepath.Dir(f[5])), filepath.Base(f[5]))
			}
		case f[0] == "Rss:":
			kb, _ := strconv.Atoi(f[1])
			sizes[name] += kb
		}
	}
	names := slices.SortedFunc(maps.Keys(sizes), func(x, y string) int { return sizes[y] - sizes[x] })
	var out strings.Builder
	for _, n := range names[:min(12, len(names))] {
		fmt.Fprintf(&out, " %s %.1f MiB,", n, float64(sizes[n])/1024)
	}
	return out.String()
}
