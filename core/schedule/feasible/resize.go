// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import "github.com/drover-project/drover/core/model"

// Resized returns the resources that a running alloc has on n once its tasks get the cpu
// and memory that the group requests now; everything else stays. It returns nil if a task
// whose resources change has a driver that cannot change them while it runs. Whether they
// fit is decided by Fits.
func Resized(old *model.AllocatedResources, tg *model.TaskGroup, n *model.Node, oversubscribe bool) *model.AllocatedResources {
	if old == nil {
		return nil
	}
	asked := Ask(tg, n, oversubscribe)
	out := *old
	out.Tasks = make(map[string]*model.AllocatedTaskResources, len(old.Tasks))
	for name, had := range old.Tasks {
		task, now := tg.LookupTask(name), asked.Tasks[name]
		if task == nil || now == nil {
			return nil
		}
		has := *had
		has.Memory = now.Memory
		if len(had.Cpu.ReservedCores) == 0 {
			has.Cpu.CpuShares = now.Cpu.CpuShares
		}
		if (has.Memory != had.Memory || has.Cpu.CpuShares != had.Cpu.CpuShares) && !n.UpdatesResources(task.Driver) {
			return nil
		}
		out.Tasks[name] = &has
	}
	return &out
}
