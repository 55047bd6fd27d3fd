// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "slices"

// Fleet has the nodes of a state in a form that makes it fast to go through all of them: as
// arrays, and sorted into kinds, so that a check with the same result for all nodes of a kind
// is made once. It is shared and never changes.
type Fleet struct {
	Nodes    []*Node    // ordered by id; a node is a row
	Capacity []NodeUse  // by row: what allocs may use
	Kind     []int32    // by row: its index in Kinds
	Kinds    []NodeKind // some may have no nodes
	Count    []int      // by kind: its number of nodes
	byKind   map[NodeKind]int32
}

// NodeKind is what the nodes of one kind have in common. Checks that do not look at what is
// unique to a node have the same result for all of them: see NodeTraits.
type NodeKind struct {
	Ready      bool
	Pool       string
	Datacenter string
	Class      string // NodeClass
	Computed   string // ComputedClass
	alone      string // id of a node without a ComputedClass, which is a kind of its own
}

// NewFleet returns a fleet of the nodes, which must be ordered by id. It takes ownership of
// the list.
func NewFleet(nodes []*Node) *Fleet {
	f := &Fleet{Nodes: nodes, Capacity: make([]NodeUse, len(nodes)), Kind: make([]int32, len(nodes)), byKind: map[NodeKind]int32{}}
	for row, n := range nodes {
		f.set(row, n)
	}
	return f
}

// staleKinds is how many kinds without nodes a fleet may have that follows another one.
const staleKinds = 64

// Replace returns the fleet with other states of some of its nodes, by row.
func (f *Fleet) Replace(other map[int]*Node) *Fleet {
	c := &Fleet{
		Nodes: slices.Clone(f.Nodes), Capacity: slices.Clone(f.Capacity), Kind: slices.Clone(f.Kind),
		Kinds: slices.Clone(f.Kinds), Count: slices.Clone(f.Count), byKind: make(map[NodeKind]int32, len(f.byKind)),
	}
	for kind, i := range f.byKind {
		c.byKind[kind] = i
	}
	for row, n := range other {
		c.Count[c.Kind[row]]--
		c.set(row, n)
	}
	if len(c.Kinds) > len(c.Nodes)+staleKinds {
		return NewFleet(c.Nodes)
	}
	return c
}

func (f *Fleet) set(row int, n *Node) {
	f.Nodes[row], f.Capacity[row], f.Kind[row] = n, n.Capacity(), f.kindOf(n)
	f.Count[f.Kind[row]]++
}

func (f *Fleet) kindOf(n *Node) int32 {
	kind := NodeKind{Ready: n.Ready(), Pool: n.NodePool, Datacenter: n.Datacenter, Class: n.NodeClass, Computed: n.ComputedClass}
	if n.ComputedClass == "" {
		kind.alone = n.ID
	}
	i, known := f.byKind[kind]
	if !known {
		i = int32(len(f.Kinds))
		f.byKind[kind] = i
		f.Kinds, f.Count = append(f.Kinds, kind), append(f.Count, 0)
	}
	return i
}

// Capacity returns what allocs may use of the node: its resources minus what is reserved.
func (n *Node) Capacity() NodeUse {
	if n.NodeResources == nil {
		return NodeUse{}
	}
	c := NodeUse{CPU: n.NodeResources.Cpu.CpuShares, MemoryMB: n.NodeResources.Memory.MemoryMB, DiskMB: n.NodeResources.Disk.DiskMB}
	if r := n.ReservedResources; r != nil {
		c.CPU -= int64(r.Cpu.CpuShares)
		c.MemoryMB -= int64(r.Memory.MemoryMB)
		c.DiskMB -= int64(r.Disk.DiskMB)
	}
	return c
}
