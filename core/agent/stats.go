// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/agent/stats"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/telemetry"
)

// keepStats is how often the drivers that have tasks are told that their samples
// are wanted, where metrics of allocs are published.
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

// keepTaskStats has tasks measured all the time: whoever reads metrics wants
// figures that cover the time since the last ones.
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

// runningTasks are the tasks that run and have a sample of now; it says that
// samples are wanted of all.
func (a *Agent) runningTasks() []stats.Running {
	var out []stats.Running
	byDriver := map[string]map[string]driver.TaskStats{}
	for _, r := range a.allocs.Runners() {
		runs, err := r.Running("")
		if err != nil {
			continue // its driver is not there
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
	return append(stats.AllocSamples(a.runningTasks(), a.mhz(), opts, labels), stats.CountSamples(counted, opts, labels)...)
}

// HostMetrics are the metrics of the machine, with the node's labels.
func (a *Agent) HostMetrics(ctx context.Context, labels map[string]string) []telemetry.Sample {
	return stats.HostSamples(a.plugins.HostStats(ctx), a.mhz(), labels)
}

func (a *Agent) answerHostStats(ctx context.Context, send func([]byte) error) error {
	out, err := stats.OfHost(a.plugins.HostStats(ctx), a.mhz())
	if err != nil {
		return err
	}
	if u, err := fingerprint.DirUse(ctx, a.cfg.AllocDir); err == nil { // the directory is the node's own, not the machine's
		out.AllocDirStats = &stats.HostDisk{
			Device: u.Device, Size: u.Size, Used: u.Used, Available: u.Available, UsedPercent: u.UsedPercent, InodesUsedPercent: u.InodesUsedPercent,
		}
	}
	out.DeviceStats = stats.OfDevices(a.plugins.DeviceStats(ctx))
	return sendJSON(send, out)
}

func (a *Agent) answerStats(ctx context.Context, q rpc.AllocRequest, send func([]byte) error) error {
	r, err := a.allocs.Runner(q.AllocID)
	if err != nil {
		return err
	}
	runs, err := r.Running(q.Task)
	if err != nil {
		return err
	}
	out, given := stats.NewAllocUsage(), r.Alloc()
	var measured []*stats.DeviceGroup
	if hasDevices(given) {
		measured = stats.OfDevices(a.plugins.DeviceStats(ctx))
	}
	for _, run := range runs {
		if s, ok := a.sampleOf(ctx, run); ok { // else its driver does not measure, or it has just ended
			out.Add(run.Task, s, a.mhz(), stats.GivenTo(alloc.DevicesOf(given, run.Task), measured))
		}
	}
	return sendJSON(send, out)
}

func hasDevices(v *model.Allocation) bool {
	if v.AllocatedResources == nil {
		return false
	}
	for name := range v.AllocatedResources.Tasks {
		if len(alloc.DevicesOf(v, name)) > 0 {
			return true
		}
	}
	return false
}

func (a *Agent) sampleOf(ctx context.Context, run alloc.TaskRun) (driver.TaskStats, bool) {
	return a.stats.Get(ctx, run.Driver, run.ID)
}
