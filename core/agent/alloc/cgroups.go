// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/cgroup"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// Cgroups makes cgroups for tasks whose drivers want them from the host. *cgroup.Tree
// implements it.
type Cgroups interface {
	// Make returns nil where the machine cannot have them.
	Make(ctx context.Context, t cgroup.Task) (*cgroup.Group, error)
	Has(allocID, task string) bool
	Remove(ctx context.Context, allocID, task string) error
	Reserve(allocID string, cores []int) (changed bool)
	Adjust(ctx context.Context) error
	// Shared returns the cores that tasks without cores may use, and whether the machine has
	// others.
	Shared() (cores []int, fewer bool)
}

// cgroupTimeout limits the making and removing of a cgroup. Its processes are killed,
// which takes long only where one waits for a disk.
const cgroupTimeout = 30 * time.Second

// grouped records which run of a task uses the task's cgroup. All runs share one cgroup, so
// the cleanup of an ended run, which the driver may delay, must not touch the next run.
type grouped struct {
	mu  sync.Mutex
	run uint64 // 0: not known, because an earlier agent made it
}

// makeCgroup makes the cgroup of a run, if its driver wants one.
func (r *Runner) makeCgroup(ctx context.Context, drv driver.Driver, name string, run uint64, config *driver.TaskConfig) error {
	wants := drv.Info().Capabilities.HostCgroup
	if r.cfg.Cgroups == nil || wants != driver.HostCgroupBare && wants != driver.HostCgroupLimited {
		return nil
	}
	t := cgroup.Task{AllocID: r.id, Name: name, Cores: config.Resources.Cores}
	if wants == driver.HostCgroupLimited {
		t.Limits = limitsOf(config.Resources)
	}
	g := &r.tasks[name].grouped
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, cgroupTimeout)
	defer cancel()
	made, err := r.cfg.Cgroups.Make(ctx, t)
	if err != nil {
		return err
	}
	config.Cgroup = nil
	if made != nil {
		g.run, config.Cgroup = run, &driver.Cgroup{Version: made.Version, Dirs: made.Dirs}
	}
	return nil
}

func limitsOf(res driver.Resources) *cgroup.Limits {
	out := &cgroup.Limits{MemoryBytes: res.MemoryMB << 20, CPUShares: res.CPUMHz}
	if res.MemoryMaxMB > res.MemoryMB {
		out.MemoryBytes, out.MemoryLowBytes = res.MemoryMaxMB<<20, res.MemoryMB<<20
	}
	return out
}

// removeCgroup kills the processes that a run has left in its cgroup, and removes the
// cgroup. It reports whether it has removed one.
func (r *Runner) removeCgroup(name string, run uint64) (gone bool) {
	if r.cfg.Cgroups == nil {
		return false
	}
	g := &r.tasks[name].grouped
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.run != run && (g.run != 0 || !r.isRun(name, run)) {
		return false
	}
	return r.dropCgroup(name)
}

// TidyCgroup removes the cgroup of a task that does not run, where that failed before.
func (r *Runner) TidyCgroup(name string) {
	t := r.tasks[name]
	if t == nil || r.cfg.Cgroups == nil {
		return
	}
	t.grouped.mu.Lock()
	defer t.grouped.mu.Unlock()
	if !r.inUse(name) {
		r.dropCgroup(name)
	}
}

// dropCgroup removes the cgroup of a task, whose grouped.mu is held.
func (r *Runner) dropCgroup(name string) (gone bool) {
	if !r.cfg.Cgroups.Has(r.id, name) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), cgroupTimeout)
	defer cancel()
	if err := r.cfg.Cgroups.Remove(ctx, r.id, name); err != nil {
		r.logger.Warn("the cgroup of an ended task cannot be removed yet; it is tried again from time to time", "task", name, "error", err)
		return false
	}
	return true
}

// isRun reports whether a run is the task's last one.
func (r *Runner) isRun(name string, run uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tasks[name].state.Run == run
}

// inUse reports whether a task starts, runs or ends, so that its cgroup is in use.
func (r *Runner) inUse(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.tasks[name].state.Phase {
	case task.Starting, task.Running, task.Delaying, task.Stopping:
		return true
	}
	return false
}
