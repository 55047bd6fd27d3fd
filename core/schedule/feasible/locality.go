// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"cmp"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// ReasonNUMA says that a task requires cores and devices of one NUMA node and that no node
// of the machine has them free.
const ReasonNUMA = "numa: no NUMA node has the cores and devices"

// memory is the part of a node's topology that locality depends on.
type memory struct {
	nodes    []int          // the NUMA nodes, ascending; at least one
	of       map[uint16]int // the NUMA node of each core
	distance func(a, b int) int
}

// memoryOf reads the topology of n. A node that reports none counts as one NUMA node.
func memoryOf(n *model.Node) *memory {
	m := &memory{of: map[uint16]int{}}
	t := n.NodeResources.Processors.Topology
	if t == nil {
		t = &model.Topology{}
	}
	set := map[int]bool{}
	for _, node := range t.Nodes {
		set[int(node)] = true
	}
	for _, c := range t.Cores {
		m.of[c.ID] = int(c.NodeID)
		set[int(c.NodeID)] = true
	}
	if len(set) == 0 {
		set[0] = true
	}
	m.nodes = slices.Sorted(maps.Keys(set))
	at := map[int]int{} // the rows of the distances are those of t.Nodes
	for i, node := range t.Nodes {
		at[int(node)] = i
	}
	m.distance = func(a, b int) int {
		i, known := at[a]
		j, also := at[b]
		switch {
		case known && also && i < len(t.Distances) && j < len(t.Distances[i]):
			return int(t.Distances[i][j])
		case a == b:
			return nearest
		}
		return farther
	}
	return m
}

// The distances of the ACPI table SLIT, for topologies without one: 10 within a NUMA node.
const (
	nearest = 10
	farther = 20
)

// place returns the NUMA node of a device. On a machine with one NUMA node, all devices are on
// it.
func (m *memory) place(d *model.NodeDevice) (int, bool) {
	if node, ok := d.NUMANode(); ok && slices.Contains(m.nodes, node) {
		return node, true
	}
	return m.nodes[0], len(m.nodes) == 1
}

// numa returns the affinity that acts on a task: "prefer", "require" or "".
func numa(r *model.Resources) string {
	if r == nil || r.NUMA == nil || r.NUMA.Affinity == model.NUMANone || !r.NUMAActs() {
		return ""
	}
	return r.NUMA.Affinity
}

// Local reports whether what a task has got on n is of one NUMA node, as far as its numa
// block concerns it: its cores, and the devices that the block names. The scheduler chooses
// by it, and the applier accepts by it.
func Local(n *model.Node, r *model.Resources, got *model.AllocatedTaskResources) bool {
	m := memoryOf(n)
	where, known := m.span(n, r, got)
	return known && len(where) <= 1
}

// span returns the NUMA nodes of a task's cores and of the devices that its numa block
// names. known is false if the NUMA node of one of the devices is unknown.
func (m *memory) span(n *model.Node, r *model.Resources, got *model.AllocatedTaskResources) (where map[int]int, known bool) {
	where, known = map[int]int{}, true
	for _, c := range got.Cpu.ReservedCores {
		where[m.of[c]]++
	}
	for i, d := range got.Devices {
		if i >= len(r.Devices) || !slices.Contains(r.NUMA.Devices, r.Devices[i].Name) {
			continue
		}
		for _, id := range d.DeviceIDs {
			node, ok := m.place(instanceOf(n, d, id))
			known = known && ok
			where[node]++
		}
	}
	return where, known
}

// instanceOf returns a device of a node. One that the node no longer has is nowhere.
func instanceOf(n *model.Node, d *model.AllocatedDeviceResource, id string) *model.NodeDevice {
	for _, g := range n.NodeResources.Devices {
		if g.Vendor != d.Vendor || g.Type != d.Type || g.Name != d.Name {
			continue
		}
		for _, i := range g.Instances {
			if i.ID == id {
				return i
			}
		}
	}
	return &model.NodeDevice{}
}

// near is where a task's cores and devices should be: those of NUMA nodes with a lower
// rank come first. The zero value has no preference.
type near struct {
	memory *memory
	rank   map[int]int
	only   bool // of rank 0 only
}

// order returns the rank of a NUMA node and whether it may be used.
func (p *near) order(node int, known bool) (rank int, ok bool) {
	if !known {
		return len(p.rank), !p.only
	}
	rank = p.rank[node]
	return rank, rank == 0 || !p.only
}

func (p *near) orderCore(id uint16) (rank int, ok bool) {
	if p.memory == nil {
		return 0, true
	}
	return p.order(p.memory.of[id], true)
}

func (p *near) orderDevice(d *model.NodeDevice) (rank int, ok bool) {
	if p.memory == nil {
		return 0, true
	}
	return p.order(p.memory.place(d))
}

// around returns the preference for a NUMA node and then for those nearest to it.
func (m *memory) around(start int, only bool) near {
	order := slices.Clone(m.nodes)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.away(start, a), m.away(start, b)), cmp.Compare(a, b))
	})
	rank := make(map[int]int, len(order))
	for i, node := range order {
		rank[node] = i
	}
	return near{memory: m, rank: rank, only: only}
}

// away is the distance of a NUMA node from start, which is the nearest to itself.
func (m *memory) away(start, node int) int {
	if start == node {
		return -1
	}
	return m.distance(start, node)
}

// chosen is what was found for a task.
type chosen struct {
	got   model.AllocatedTaskResources
	score float64 // how far its devices match their affinities
	cost  int     // sum of the distances from the NUMA node around which it was chosen
	left  int     // free cores that remain there
}

// better reports whether a is to be preferred: what is nearer, then whose devices match
// better, then what leaves fewer cores of its NUMA node, so that others remain whole.
func (a *chosen) better(b *chosen) bool {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(b.score, a.score), cmp.Compare(a.left, b.left)) < 0
}

// chooseNear chooses the cores and devices of a task that has a numa block.
func (c *Checker) chooseNear(u *Usage, n *model.Node, r *model.Resources, base model.AllocatedTaskResources) (*chosen, string) {
	m := memoryOf(n)
	if _, why := c.choose(u, n, r, base, near{}); why != "" {
		return nil, why // it is lacking at any place
	}
	required := numa(r) == model.NUMARequire
	var best *chosen
	for _, start := range m.nodes {
		one, why := c.choose(u, n, r, base, m.around(start, required))
		if why != "" || required && !Local(n, r, &one.got) {
			continue
		}
		where, known := m.span(n, r, &one.got)
		for node, count := range where {
			one.cost += count * m.distance(start, node)
		}
		if !known {
			one.cost += 255 // the largest distance of the table
		}
		one.left = m.free(u, n, start) - where[start]
		if best == nil || one.better(best) {
			best = one
		}
	}
	if best == nil {
		return nil, ReasonNUMA
	}
	return best, ""
}

// free returns how many cores of a NUMA node can be reserved.
func (m *memory) free(u *Usage, n *model.Node, node int) int {
	out := 0
	for _, c := range n.NodeResources.Cpu.ReservableCpuCores {
		if m.of[c] == node && !u.cores[c] {
			out++
		}
	}
	return out
}
