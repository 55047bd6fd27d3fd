// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"reflect"

	"github.com/drover-project/drover/core/model"
)

// Change is a plan's change of one node.
type Change struct {
	Stop  []*model.Allocation // their resources are free for Place
	Place []*model.Allocation // new allocs
	// Elsewhere returns the new allocs of the plan on other nodes: volumes of type csi are not
	// of one node. It is called only if Place asks for such volumes; nil means that there are
	// none.
	Elsewhere func() []*model.Allocation
}

// Fits returns "" if the change fits on n in the view, otherwise what is lacking:
// "cpu", "memory", "disk", "cores", "devices", a port collision, ReasonNUMA or why a volume
// cannot be used. A change that places nothing always fits.
func Fits(v PlanView, n *model.Node, c Change) string {
	if len(c.Place) == 0 {
		return ""
	}
	gone := make(map[string]bool, len(c.Stop)+len(c.Place))
	cpu, mem, disk := v.NodeUsed(n.ID)
	free := func(id string) {
		old := v.AllocByID(id)
		if gone[id] || old == nil || old.NodeID != n.ID || old.ClientTerminalStatus() || old.AllocatedResources == nil {
			return
		}
		gone[id] = true
		r := old.AllocatedResources.Comparable()
		cpu, mem, disk = cpu-r.CPUShares, mem-r.MemoryMB, disk-r.DiskMB
	}
	for _, a := range c.Stop {
		free(a.ID)
	}
	exclusive := false
	for _, a := range c.Place {
		if a.AllocatedResources != nil {
			r := a.AllocatedResources.Comparable()
			cpu, mem, disk = cpu+r.CPUShares, mem+r.MemoryMB, disk+r.DiskMB
			exclusive = exclusive || holdsExclusive(a.AllocatedResources)
		}
	}
	if d := Lacking(n.Capacity(), model.NodeUse{CPU: cpu, MemoryMB: mem, DiskMB: disk}); d != "" {
		return d
	}
	if why := fitsVolumes(v, n, c.Place); why != "" {
		return why
	}
	if why := fitsCSI(v, n, c.Place, c.Elsewhere); why != "" {
		return why
	}
	if !exclusive && n.NodeMaxAllocs == 0 {
		return ""
	}
	holders := Holders(v, n.ID, gone)
	if why := Crowded(n, len(holders)+len(c.Place)); why != "" || !exclusive {
		return why
	}
	u := UsageOf(n, holders)
	for _, a := range c.Place {
		if why := u.Add(a); why != "" {
			return why
		}
		if !localAsRequired(v, n, a) {
			return ReasonNUMA
		}
	}
	return ""
}

// localAsRequired reports whether the tasks of an alloc that require cores and devices of
// one NUMA node have them on n.
func localAsRequired(v PlanView, n *model.Node, a *model.Allocation) bool {
	if a.AllocatedResources == nil || n.NodeResources == nil {
		return true
	}
	job := a.Job
	if job == nil {
		job = v.JobOf(a)
	}
	if job == nil {
		return true
	}
	tg := job.LookupTaskGroup(a.TaskGroup)
	if tg == nil {
		return true
	}
	for name, got := range a.AllocatedResources.Tasks {
		if t := tg.LookupTask(name); t != nil && numa(t.Resources) == model.NUMARequire && !Local(n, t.Resources, got) {
			return false
		}
	}
	return true
}

// Lacking returns the first dimension in which used exceeds have, or "".
func Lacking(have, used model.NodeUse) string {
	switch {
	case used.CPU > have.CPU:
		return "cpu"
	case used.MemoryMB > have.MemoryMB:
		return "memory"
	case used.DiskMB > have.DiskMB:
		return "disk"
	}
	return ""
}

// Crowded returns a reason if n may not hold that many allocs, or "".
func Crowded(n *model.Node, allocs int) string {
	if n.NodeMaxAllocs > 0 && allocs > n.NodeMaxAllocs {
		return "max allocs exceeded"
	}
	return ""
}

// SameRoom reports whether two states of a node are equal in everything that Fits
// reads of it.
func SameRoom(a, b *model.Node) bool {
	return a.NodeMaxAllocs == b.NodeMaxAllocs && reflect.DeepEqual(a.HostVolumes, b.HostVolumes) && reflect.DeepEqual(a.CSINodePlugins, b.CSINodePlugins) &&
		reflect.DeepEqual(a.NodeResources, b.NodeResources) && reflect.DeepEqual(a.ReservedResources, b.ReservedResources)
}

// Holders returns the allocs that use resources of the node, except those in gone. An
// alloc that was asked to stop counts until its node reports that it has ended.
func Holders(v NodeView, nodeID string, gone map[string]bool) []*model.Allocation {
	all := v.AllocsByNode(nodeID)
	out := make([]*model.Allocation, 0, len(all)+1)
	for _, a := range all {
		if !a.ClientTerminalStatus() && !gone[a.ID] {
			out = append(out, a)
		}
	}
	return out
}

func holdsExclusive(r *model.AllocatedResources) bool {
	if len(r.Shared.Ports) > 0 {
		return true
	}
	for _, t := range r.Tasks {
		if len(t.Networks) > 0 || len(t.Devices) > 0 || len(t.Cpu.ReservedCores) > 0 {
			return true
		}
	}
	return false
}
