// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/agent/stats"
	"github.com/drover-project/drover/core/pluginhost/driver"
	measured "github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/core/telemetry"
)

// keepStats is the interval at which the agent renews its request for samples from the
// drivers with tasks, if it publishes metrics of allocs.
const keepStats = 5 * time.Second

// openStats makes the one collection of the node.
func (a *Agent) openStats() {
	var onRestart func(string, func()) func()
	if a.host != nil {
		onRestart = a.host.OnRestart
	}
	a.stats = stats.NewTasks(a.cfg.StatsInterval, onRestart, a.cfg.Logger.Named("stats"))
}

// mhz is the speed of a core.
func (a *Agent) mhz() float64 {
	v, _ := strconv.ParseFloat(a.facts.Attributes["cpu.frequency"], 64) // set by the fingerprint
	return v
}

// keepTaskStats measures the tasks continuously, because readers of metrics expect
// values that cover the whole time since their last read.
func (a *Agent) keepTaskStats(ctx context.Context) {
	tick := time.NewTicker(keepStats)
	defer tick.Stop()
	for {
		a.runningTasks()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tasksToMeasure returns the running tasks for collectors that measure tasks. Before the
// agent has restored its allocs it returns none.
func (a *Agent) tasksToMeasure() []measured.Task {
	set := a.running.Load()
	if set == nil {
		return nil
	}
	var out []measured.Task
	for _, r := range set.Runners() {
		runs, err := r.Running("")
		if err != nil {
			continue // its driver is not there
		}
		alloc := r.Alloc()
		for _, run := range runs {
			out = append(out, measured.Task{
				ID: alloc.ID + "/" + run.Task, Namespace: alloc.Namespace, JobID: alloc.JobID, TaskGroup: alloc.TaskGroup, AllocID: alloc.ID,
				Name: run.Task, Driver: run.Driver.Info().Name, DriverID: run.ID,
			})
		}
	}
	return out
}

// runningTasks are the tasks that run and have a sample of now; it says that
// samples are wanted of all.
func (a *Agent) runningTasks() []stats.Running {
	var out []stats.Running
	byDriver := map[string]map[string]driver.TaskStats{}
	for _, r := range a.allocs.Runners() {
		runs, err := r.Running("")
		if err != nil {
			continue // the node does not have its driver
		}
		alloc := r.Alloc()
		for _, run := range runs {
			name := run.Driver.Info().Name
			now, ok := byDriver[name]
			if !ok {
				now = a.stats.Now(run.Driver)
				byDriver[name] = now
			}
			if s, ok := now[run.ID]; ok {
				out = append(out, stats.Running{Alloc: alloc, Task: run.Task, Sample: s})
			}
		}
	}
	return out
}

// AllocMetrics are the metrics of the tasks that this node has.
func (a *Agent) AllocMetrics(opts stats.AllocOptions, labels map[string]string) []telemetry.Sample {
	var counted []stats.Counted
	for _, r := range a.allocs.Runners() {
		given := r.Alloc()
		for _, c := range r.Counts() {
			counted = append(counted, stats.Counted{
				Alloc: given, Task: c.Task, Starts: c.Starts, Restarts: c.Restarts, OOMKills: c.OOMKills, Running: c.Running, Dead: c.Dead, Failed: c.Failed,
			})
		}
	}
	out := append(stats.AllocSamples(a.runningTasks(), a.mhz(), opts, labels), stats.CountSamples(counted, opts, labels)...)
	return append(out, stats.DiskSamples(a.disksInUse(), labels)...)
}

// HostMetrics are the metrics of the machine, with the node's labels.
func (a *Agent) HostMetrics(ctx context.Context, labels map[string]string) []telemetry.Sample {
	return stats.HostSamples(a.plugins.HostStats(ctx), a.mhz(), labels)
}
