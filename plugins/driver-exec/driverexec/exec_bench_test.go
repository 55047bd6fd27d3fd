// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// sleeper returns a task that sleeps.
func (c *cell) sleeper(name string) *driver.TaskConfig {
	return c.task(name, map[string]any{"command": "sleep", "args": []any{"1000"}})
}

// BenchmarkOneExecTask measures the time from StartTask until an isolated task runs.
func BenchmarkOneExecTask(b *testing.B) {
	c := newCell(b, nil)
	c.script("warm", "true") // starts the supervisor
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		task := c.sleeper(fmt.Sprintf("one%d", n))
		b.StartTimer()
		if _, _, err := c.StartTask(c.ctx, task); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkTenExecTasks measures the time until ten tasks that are started
// concurrently run. PSS-KB/task is the memory of process 1 of each.
func BenchmarkTenExecTasks(b *testing.B) {
	c := newCell(b, nil)
	c.script("warm", "true")
	n := 0
	for b.Loop() {
		b.StopTimer()
		var tasks []*driver.TaskConfig
		for i := range 10 {
			n++
			tasks = append(tasks, c.sleeper(fmt.Sprintf("ten%d-%d", n, i)))
		}
		b.StartTimer()
		var wait sync.WaitGroup
		for _, task := range tasks {
			wait.Go(func() {
				if _, _, err := c.StartTask(c.ctx, task); err != nil {
					b.Error(err)
				}
			})
		}
		wait.Wait()
		b.StopTimer()
		total, count := 0, 0
		for _, pid := range processesCalled(b, "drover-init") {
			total += pss(b, pid)
			count++
		}
		if count > 0 {
			b.ReportMetric(float64(total)/float64(count), "PSS-KB/task")
		}
		for _, task := range tasks {
			if err := c.DestroyTask(c.ctx, task.Ref(), true); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
}

// processesCalled returns the processes with this name.
func processesCalled(tb testing.TB, name string) []int {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		tb.Fatal(err)
	}
	var out []int
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || strings.TrimSpace(string(raw)) != name {
			continue // it has ended, or has another name
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}
