// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
)

// BenchmarkLogBytes prints the content of a real agent's raft log after some work,
// by kind of command: entries, bytes, and bytes per alloc.
func BenchmarkLogBytes(b *testing.B) {
	bin := binariesOf(b)
	const restarts = `n=$(cat local/n 2>/dev/null || echo 0); echo $((n+1)) > local/n; [ $n -ge 3 ]`
	for _, c := range []struct {
		name   string
		allocs int
		work   func(a *agent, b *testing.B)
	}{
		{"200-short-batch-allocs", 200, func(a *agent, b *testing.B) {
			a.mustPost(b, "/v1/jobs", batchJob("short", 200, map[string]any{"t": "true"}, nil))
		}},
		{"200-dispatches", 200, func(a *agent, b *testing.B) {
			a.mustPost(b, "/v1/jobs", batchJob("hook", 1, map[string]any{"t": "true"}, map[string]any{"ParameterizedJob": map[string]any{}}))
			for range 200 {
				a.mustPost(b, "/v1/job/hook/dispatch", map[string]any{})
			}
		}},
		{"50-allocs-3-tasks-3-restarts", 50, func(a *agent, b *testing.B) {
			a.mustPost(b, "/v1/jobs", batchJob("restarts", 50, map[string]any{"one": restarts, "two": restarts, "three": restarts}, nil))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				data := b.TempDir()
				a := startAgentWith(b, bin, fmt.Sprintf("data_dir = %q\n", data))
				settle()
				before := a.index(b)
				c.work(a, b)
				a.waitComplete(b, c.allocs)
				settle()
				a.stop()
				unmount(b, data)
				reportLog(b, filepath.Join(data, "server", "raft"), before, c.allocs)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// batchJob returns a batch job with count allocs whose tasks run scripts.
func batchJob(id string, count int, scripts, more map[string]any) map[string]any {
	var tasks []any
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		tasks = append(tasks, map[string]any{
			"Name": name, "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sh", "args": []any{"-c", scripts[name]}},
			"Resources": map[string]any{"CPU": 2, "MemoryMB": 10}, "LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1},
		})
	}
	job := map[string]any{"ID": id, "Name": id, "Type": "batch", "Datacenters": []string{"*"}, "TaskGroups": []any{map[string]any{
		"Name": "g", "Count": count, "EphemeralDisk": map[string]any{"SizeMB": 10}, "Tasks": tasks,
		"RestartPolicy": map[string]any{"Attempts": 5, "Interval": int64(time.Hour), "Delay": int64(time.Second), "Mode": "fail"},
	}}}
	maps.Copy(job, more)
	return map[string]any{"Job": job}
}

// index returns the newest index of the tables that the work below changes.
func (a *agent) index(b *testing.B) uint64 {
	b.Helper()
	var newest uint64
	for _, path := range []string{"/v1/nodes", "/v1/evaluations", "/v1/jobs", "/v1/operator/scheduler/configuration"} {
		r, err := http.Get(a.url + path)
		if err != nil {
			b.Fatal(err)
		}
		r.Body.Close()
		n, _ := strconv.ParseUint(r.Header.Get("X-Nomad-Index"), 10, 64)
		newest = max(newest, n)
	}
	return newest
}

// waitComplete waits until n allocs are complete.
func (a *agent) waitComplete(b *testing.B, n int) {
	b.Helper()
	a.waitLong(b, fmt.Sprintf("%d complete allocs", n), func() bool {
		var allocs []struct{ ClientStatus string }
		if err := a.get("/v1/allocations?task_states=false", &allocs); err != nil {
			b.Fatal(err)
		}
		done := 0
		for _, x := range allocs {
			if x.ClientStatus == "complete" {
				done++
			}
		}
		return done == n
	})
}

// unmount unmounts the tmpfs of secrets that allocs keep until they are collected.
func unmount(b *testing.B, dir string) {
	b.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir+"/") {
			if out, err := exec.Command("umount", "-l", at).CombinedOutput(); err != nil {
				b.Fatalf("umount %s: %v: %s", at, err, out)
			}
		}
	}
}

// share is the part of the log that one kind of command uses.
type share struct {
	kind           string
	entries, bytes int
}

// reportLog prints the log after an index, the largest share first.
func reportLog(b *testing.B, dir string, after uint64, allocs int) {
	b.Helper()
	log, err := consensus.OpenLog(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	info, err := log.Info()
	if err != nil {
		b.Fatal(err)
	}
	shares, total := map[string]*share{}, 0
	err = log.Entries(max(after+1, info.First), info.Last, func(e consensus.LogEntry) error {
		total += len(e.Data)
		return addShares(shares, e.Data)
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range slices.SortedFunc(maps.Values(shares), func(x, y *share) int { return -cmp.Compare(x.bytes, y.bytes) }) {
		b.Logf("%-28s %5d commands %8d bytes %8.1f bytes/alloc %5.1f %%", s.kind, s.entries, s.bytes, float64(s.bytes)/float64(allocs), 100*float64(s.bytes)/float64(total))
	}
	var status share
	for _, kind := range []string{"ReportAllocs", "UpdateAllocsFromClient"} {
		if s := shares[kind]; s != nil {
			status.entries, status.bytes = status.entries+s.entries, status.bytes+s.bytes
		}
	}
	if status.entries == 0 {
		b.Fatal("the log holds no report of a node")
	}
	b.ReportMetric(float64(status.entries), "status-entries")
	b.ReportMetric(float64(status.bytes)/float64(allocs), "status-B/alloc")
	b.ReportMetric(100*float64(status.bytes)/float64(total), "status-%")
	b.ReportMetric(float64(total)/float64(allocs), "log-B/alloc")
}

func addShares(shares map[string]*share, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	cmd, err := fsm.Decode(data)
	if err != nil {
		return err
	}
	commands := []fsm.Command{cmd}
	if batch, ok := cmd.(*fsm.Batch); ok {
		commands = batch.Commands
	}
	for _, c := range commands {
		size := len(data)
		if len(commands) > 1 { // its own part of the batch
			alone, err := fsm.Encode(c)
			if err != nil {
				return err
			}
			size = len(alone)
		}
		kind := strings.TrimPrefix(fmt.Sprintf("%T", c), "*fsm.")
		s := shares[kind]
		if s == nil {
			s = &share{kind: kind}
			shares[kind] = s
		}
		s.entries++
		s.bytes += size
	}
	return nil
}
