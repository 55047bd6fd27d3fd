// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"slices"

	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/taskenv"
)

// holdCores reserves the cores of the alloc in the tree of cgroups, so that tasks without
// cores do not use them.
func (r *Runner) holdCores(cores []int) {
	if r.cfg.Cgroups == nil || !r.cfg.Cgroups.Reserve(r.id, cores) {
		return
	}
	r.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), cgroupTimeout)
		defer cancel()
		if err := r.cfg.Cgroups.Adjust(ctx); err != nil {
			r.logger.Warn("the cores that tasks share cannot be set; the next change of cores sets them", "error", err)
		}
		if r.cfg.CoresChanged != nil {
			r.cfg.CoresChanged()
		}
	})
}

// coresOf are the cores that an alloc has for itself, sorted.
func coresOf(a *model.Allocation) []int {
	var out []int
	if a.AllocatedResources == nil {
		return nil
	}
	for _, t := range a.AllocatedResources.Tasks {
		for _, c := range t.Cpu.ReservedCores {
			out = append(out, int(c))
		}
	}
	slices.Sort(out)
	return out
}

// ShareCores moves the running tasks without cores to the cores that no task has reserved now.
func (r *Runner) ShareCores() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun || r.ended || r.closed {
		return
	}
	var e effects
	for name, t := range r.tasks {
		if !t.unseen { // otherwise it is moved once its driver knows it again
			r.shareCores(name, t, &e)
		}
	}
	r.settle(&e)
}

func (r *Runner) shareCores(name string, t *taskRun, e *effects) {
	if limits := r.cfg.limitsOf(r.alloc, name); limits != t.spec.Limits {
		t.spec.Limits = limits
		r.step(name, task.Resize{}, e)
	}
}

// limitsOf returns the resources of a task that may change while it runs.
func (c *Config) limitsOf(a *model.Allocation, name string) task.Limits {
	if a.AllocatedResources == nil || a.AllocatedResources.Tasks[name] == nil {
		return task.Limits{}
	}
	r := a.AllocatedResources.Tasks[name]
	return task.Limits{CPUMHz: r.Cpu.CpuShares, MemoryMB: r.Memory.MemoryMB, MemoryMaxMB: r.Memory.MemoryMaxMB, Cores: taskenv.Cpuset(c.shared(r))}
}

// shared returns the cores that a task without cores may use; none means all.
func (c *Config) shared(r *model.AllocatedTaskResources) []int {
	if c.Cgroups == nil || len(r.Cpu.ReservedCores) > 0 {
		return nil
	}
	cores, fewer := c.Cgroups.Shared()
	if !fewer {
		return nil
	}
	return cores
}

// resourcesOf returns what the driver is told of the resources of a task.
func (c *Config) resourcesOf(t *model.AllocatedTaskResources) driver.Resources {
	if t == nil {
		return driver.Resources{}
	}
	out := driver.Resources{CPUMHz: t.Cpu.CpuShares, MemoryMB: t.Memory.MemoryMB, MemoryMaxMB: t.Memory.MemoryMaxMB}
	out.SharedCores = c.shared(t)
	for _, core := range t.Cpu.ReservedCores {
		out.Cores = append(out.Cores, int(core))
	}
	if n := c.Node(); n != nil && n.NodeResources != nil && n.NodeResources.Cpu.CpuShares > 0 {
		out.CPUPercent = 100 * float64(t.Cpu.CpuShares) / float64(n.NodeResources.Cpu.CpuShares)
	}
	return out
}
