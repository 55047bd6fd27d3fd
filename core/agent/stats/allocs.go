// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/telemetry"
)

// AllocOptions says which metrics of allocs are published, and with which labels.
type AllocOptions struct {
	// Metadata adds a task's meta as labels: all, or only the keys of MetadataKeys.
	Metadata     bool
	MetadataKeys []string
}

// Running is a task that runs, and its newest sample.
type Running struct {
	Alloc  *model.Allocation
	Task   string
	Sample driver.TaskStats
}

// Counted counts the events of a task since the node received its alloc.
type Counted struct {
	Alloc                      *model.Allocation
	Task                       string
	Starts, Restarts, OOMKills uint64
	Running, Dead, Failed      bool
}

// CountSamples returns the metrics of the events of tasks, with the reference's names.
// They include all tasks of the node, even those that have ended, until their allocs
// are removed.
func CountSamples(tasks []Counted, opts AllocOptions, labels map[string]string) []telemetry.Sample {
	s := &samples{labels: labels, out: make([]telemetry.Sample, 0, len(tasks)*perCount)}
	for _, t := range tasks {
		of := s.taskLabels(t.Alloc, t.Task, opts)
		s.counter(of, "nomad.client.allocs.start", float64(t.Starts))
		s.counter(of, "nomad.client.allocs.restart", float64(t.Restarts))
		s.counter(of, "nomad.client.allocs.oom_killed", float64(t.OOMKills))
		s.counter(of, "nomad.client.allocs.complete", oneIf(t.Dead && !t.Failed))
		s.counter(of, "nomad.client.allocs.failed", oneIf(t.Dead && t.Failed))
		s.gauge(of, "nomad.client.allocs.running", oneIf(t.Running))
	}
	return s.out
}

// perCount is how many samples CountSamples has of a task.
const perCount = 6

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// AllocSamples returns the metrics of running tasks, with the reference's names. The
// series of a task end with it.
func AllocSamples(tasks []Running, mhz float64, opts AllocOptions, labels map[string]string) []telemetry.Sample {
	s := &samples{labels: labels, out: make([]telemetry.Sample, 0, len(tasks)*perTask)}
	for _, t := range tasks {
		s.task(t, mhz, opts)
	}
	return s.out
}

// perTask is how many samples a task has at most.
const perTask = 23

func (s *samples) task(t Running, mhz float64, opts AllocOptions) {
	of := s.taskLabels(t.Alloc, t.Task, opts)
	c, m := cpuOf(t.Sample.CPU, mhz), t.Sample.Memory
	s.gauge(of, "nomad.client.allocs.cpu.total_percent", c.Percent)
	s.gauge(of, "nomad.client.allocs.cpu.system", c.SystemMode)
	s.gauge(of, "nomad.client.allocs.cpu.user", c.UserMode)
	s.gauge(of, "nomad.client.allocs.cpu.throttled_time", float64(c.ThrottledTime))
	s.gauge(of, "nomad.client.allocs.cpu.throttled_periods", float64(c.ThrottledPeriods))
	s.gauge(of, "nomad.client.allocs.cpu.total_ticks", c.TotalTicks)
	s.gauge(of, "nomad.client.allocs.memory.rss", float64(m.RSS))
	s.gauge(of, "nomad.client.allocs.memory.cache", float64(m.Cache))
	s.gauge(of, "nomad.client.allocs.memory.swap", float64(m.Swap))
	s.gauge(of, "nomad.client.allocs.memory.mapped_file", float64(m.MappedFile))
	s.gauge(of, "nomad.client.allocs.memory.usage", float64(m.Usage))
	s.gauge(of, "nomad.client.allocs.memory.max_usage", float64(m.MaxUsage))
	s.gauge(of, "nomad.client.allocs.memory.kernel_usage", float64(m.KernelUsage))
	s.gauge(of, "nomad.client.allocs.memory.kernel_max_usage", float64(m.KernelMaxUsage))
	if t.Sample.Processes > 0 {
		s.gauge(of, "drover.client.allocs.processes", float64(t.Sample.Processes))
	}
	s.io(of, t.Sample.IO)
	if r := t.Alloc.AllocatedResources; r != nil && r.Tasks[t.Task] != nil {
		has := r.Tasks[t.Task]
		s.gauge(of, "nomad.client.allocs.cpu.allocated", float64(has.Cpu.CpuShares))
		s.gauge(of, "nomad.client.allocs.memory.allocated", float64(has.Memory.MemoryMB)*(1<<20))
		if has.Memory.MemoryMaxMB > 0 {
			s.gauge(of, "nomad.client.allocs.memory.max_allocated", float64(has.Memory.MemoryMaxMB)*(1<<20))
		}
	}
}

// io adds what a task has read and written, as far as its driver measures it.
func (s *samples) io(of map[string]string, io driver.IOStats) {
	for i, v := range []struct {
		name  string
		value uint64
	}{{"read_bytes", io.ReadBytes}, {"written_bytes", io.WrittenBytes}, {"reads", io.Reads}, {"writes", io.Writes}} {
		if slices.Contains(io.Measured, driver.IOMeasures[i]) {
			s.counter(of, "drover.client.allocs.io."+v.name, float64(v.value))
		}
	}
}

// taskLabels are one map for all samples of a task.
func (s *samples) taskLabels(a *model.Allocation, task string, opts AllocOptions) map[string]string {
	of := s.with("alloc_id", a.ID, "task_group", a.TaskGroup, "task", task, "namespace", a.Namespace, "job", a.JobID)
	job := a.Job
	if job == nil {
		return of
	}
	of["job"] = job.Name
	if job.ParentID != "" {
		of["parent_id"] = job.ParentID
		child := strings.TrimPrefix(job.ID, job.ParentID)
		if id, ok := strings.CutPrefix(child, "/dispatch-"); ok {
			of["dispatch_id"] = id
		} else if id, ok := strings.CutPrefix(child, "/periodic-"); ok {
			of["periodic_id"] = id
		}
	}
	if opts.Metadata {
		for key, value := range metaOf(job, a.TaskGroup, task) {
			if _, taken := of[key]; !taken && (len(opts.MetadataKeys) == 0 || slices.Contains(opts.MetadataKeys, key)) {
				of[key] = value
			}
		}
	}
	return of
}

// metaOf returns the meta of a task: the job's, the group's and its own; the innermost
// has precedence.
func metaOf(job *model.Job, group, task string) map[string]string {
	out := maps.Clone(job.Meta)
	if out == nil {
		out = map[string]string{}
	}
	if tg := job.LookupTaskGroup(group); tg != nil {
		maps.Copy(out, tg.Meta)
		if t := tg.LookupTask(task); t != nil {
			maps.Copy(out, t.Meta)
		}
	}
	return out
}
