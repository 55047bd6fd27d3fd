// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// BenchmarkHotUpgrade measures the upgrade of a plugin with 200 tasks: how long it
// takes, and the longest time for which no task, or one of them, was measured. The tasks
// are measured each 100 ms, so that a gap is told from a pause.
func BenchmarkHotUpgrade(b *testing.B) {
	const tasks, interval = 200, 100 * time.Millisecond
	shell := callee{driver: "shell", plugin: "driver-shell", binary: buildShellDriver(b)}
	h, status := shell.start(b)
	d, err := h.Driver(shell.driver)
	if err != nil {
		b.Fatal(err)
	}
	startMany(b, d, tasks)
	gaps := followGaps(b, d, tasks, interval)
	var took, gap, without time.Duration
	for n := 0; b.Loop(); n++ {
		release := nextRelease(b, shell.binary, n)
		gaps.reset()
		begun := time.Now()
		now, err := h.Install(b.Context(), pluginhost.Release{Name: shell.plugin, Source: release})
		if err != nil || now.PID == status.PID {
			b.Fatalf("upgrade: pid %d after %d, %v", now.PID, status.PID, err)
		}
		took, status = max(took, time.Since(begun)), now
		gaps.awaitAll(b, tasks)
		one, all := gaps.longest()
		gap, without = max(gap, one), max(without, all)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(took), "upgrade-ms")
	b.ReportMetric(ms(gap-interval), "gap-of-a-task-ms")
	b.ReportMetric(ms(without-interval), "gap-of-all-ms")
}

func startMany(b *testing.B, d driver.Driver, n int) {
	b.Helper()
	dir := b.TempDir()
	for i := range n {
		id := fmt.Sprintf("many/%d", i)
		_, _, err := d.StartTask(b.Context(), &driver.TaskConfig{
			ID: id, Name: "many", AllocID: "many", AllocDir: dir, TaskDir: dir, DriverConfig: []byte(`{"script":"exec sleep 1000"}`),
			Env: map[string]string{"PATH": os.Getenv("PATH")}, Logs: driver.LogConfig{Disabled: true},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				_ = d.DestroyTask(context.Background(), driver.TaskRef{ID: fmt.Sprintf("many/%d", i), AllocDir: dir, TaskDir: dir}, true)
			})
		}
		all.Wait()
	})
}

// nextRelease is the same plugin with another digest.
func nextRelease(b *testing.B, binary string, n int) string {
	b.Helper()
	body, err := os.ReadFile(binary)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "release")
	if err := os.WriteFile(path, fmt.Appendf(body, "\nrelease %d", n), 0o755); err != nil {
		b.Fatal(err)
	}
	return path
}

// gaps are the longest times between two measurements.
type gaps struct {
	mu    sync.Mutex
	last  map[string]time.Time
	any   time.Time
	one   time.Duration // of one task
	all   time.Duration // of all tasks
	fresh map[string]bool
}

// followGaps reads the statistics of a driver until the benchmark ends, and returns when all
// tasks have been measured once.
func followGaps(b *testing.B, d driver.Driver, tasks int, interval time.Duration) *gaps {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	stats, err := d.TaskStats(ctx, interval)
	if err != nil {
		b.Fatal(err)
	}
	g := &gaps{last: map[string]time.Time{}, fresh: map[string]bool{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for batch := range stats {
			g.take(batch, time.Now())
		}
	}()
	b.Cleanup(func() { cancel(); <-ended })
	g.awaitAll(b, tasks)
	return g
}

func (g *gaps) take(batch []driver.TaskStats, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range batch {
		if !strings.HasPrefix(s.TaskID, "many/") {
			continue
		}
		if last := g.last[s.TaskID]; !last.IsZero() {
			g.one = max(g.one, now.Sub(last))
		}
		g.last[s.TaskID], g.fresh[s.TaskID] = now, true
	}
	if !g.any.IsZero() {
		g.all = max(g.all, now.Sub(g.any))
	}
	g.any = now
}

func (g *gaps) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.one, g.all = 0, 0
}

func (g *gaps) longest() (one, all time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.one, g.all
}

// awaitAll waits until each task has been measured anew.
func (g *gaps) awaitAll(b *testing.B, tasks int) {
	b.Helper()
	g.mu.Lock()
	clear(g.fresh)
	g.mu.Unlock()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		g.mu.Lock()
		n := len(g.fresh)
		g.mu.Unlock()
		if n >= tasks {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d tasks are measured", n, tasks)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
