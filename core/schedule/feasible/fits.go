// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import "github.com/drover-project/drover/core/model"

// Change is what a plan does to one node.
type Change struct {
	Stop  []*model.Allocation // stopped or evicted: their room is free for Place
	Place []*model.Allocation // new allocs, or updates in place of existing ones
}

// Fits returns "" if the change fits on n in the view, else what is lacking:
// "cpu", "memory", "disk", "cores", "devices" or a port collision. A change
// that places nothing always fits.
func Fits(v NodeView, n *model.Node, c Change) string {
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
	exclusive, grows := false, false
	for _, a := range c.Place {
		grows = grows || v.AllocByID(a.ID) == nil
		free(a.ID)
		if holds(a) {
			r := a.AllocatedResources.Comparable()
			cpu, mem, disk = cpu+r.CPUShares, mem+r.MemoryMB, disk+r.DiskMB
			exclusive = exclusive || holdsExclusive(a.AllocatedResources)
		}
	}
	if !grows {
		return "" // updates in place keep what they have, whatever the node has lost since
	}
	if d := lacking(CapacityOf(n), cpu, mem, disk); d != "" {
		return d
	}
	if n.NodeMaxAllocs > 0 && len(Holders(v, n.ID, gone))+len(c.Place) > n.NodeMaxAllocs {
		return "max allocs exceeded"
	}
	if !exclusive {
		return ""
	}
	return collides(v, n, c, gone)
}

// collides says which port, core or device of a new alloc somebody holds already.
func collides(v NodeView, n *model.Node, c Change, gone map[string]bool) string {
	u := UsageOf(n, Holders(v, n.ID, gone))
	for _, a := range c.Place {
		if v.AllocByID(a.ID) != nil && holds(a) {
			_ = u.Add(a) // an update in place keeps what it has
		}
	}
	for _, a := range c.Place {
		if v.AllocByID(a.ID) == nil {
			if why := u.Add(a); why != "" {
				return why
			}
		}
	}
	return ""
}

// holds reports whether an alloc takes room: one that has ended takes none, even
// if a plan changes something about it.
func holds(a *model.Allocation) bool { return !a.ClientTerminalStatus() && a.AllocatedResources != nil }

// lacking names the first dimension in which the sums exceed the capacity.
func lacking(have Capacity, cpu, mem, disk int64) string {
	switch {
	case cpu > have.CPU:
		return "cpu"
	case mem > have.Memory:
		return "memory"
	case disk > have.Disk:
		return "disk"
	}
	return ""
}

// Holders returns the allocs that hold something of the node, without those in
// gone. What has been asked to stop holds its own until its node says it ended.
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
