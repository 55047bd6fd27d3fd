// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// full is a state with allocs.
type full struct {
	view
	allocs []*model.Allocation
}

func (v full) AllocByID(id string) *model.Allocation {
	for _, a := range v.allocs {
		if a.ID == id {
			return a
		}
	}
	return nil
}

func (v full) AllocsByNode(node string) (out []*model.Allocation) {
	for _, a := range v.allocs {
		if a.NodeID == node {
			out = append(out, a)
		}
	}
	return out
}

func (v full) NodeUsed(node string) (cpu, mem, disk int64) {
	for _, a := range v.AllocsByNode(node) {
		if !a.ClientTerminalStatus() && a.AllocatedResources != nil {
			r := a.AllocatedResources.Comparable()
			cpu, mem, disk = cpu+r.CPUShares, mem+r.MemoryMB, disk+r.DiskMB
		}
	}
	return cpu, mem, disk
}

func allocOf(id string, cpu, mem, disk int64) *model.Allocation {
	return &model.Allocation{ID: id, NodeID: "n", ClientStatus: model.AllocClientStatusRunning, AllocatedResources: &model.AllocatedResources{
		Tasks:  map[string]*model.AllocatedTaskResources{"t": {Cpu: model.AllocatedCpuResources{CpuShares: cpu}, Memory: model.AllocatedMemoryResources{MemoryMB: mem}}},
		Shared: model.AllocatedSharedResources{DiskMB: disk},
	}}
}

// port gives an alloc a port of its node.
func port(a *model.Allocation, value int) *model.Allocation {
	a.AllocatedResources.Shared.Ports = append(a.AllocatedResources.Shared.Ports, model.AllocatedPortMapping{Label: "http", Value: value, HostIP: "10.0.0.1"})
	return a
}

func TestWhatFitsOnANode(t *testing.T) {
	n := &model.Node{ID: "n", NodeResources: &model.NodeResources{
		Cpu: model.NodeCpuResources{CpuShares: 100}, Memory: model.NodeMemoryResources{MemoryMB: 100}, Disk: model.NodeDiskResources{DiskMB: 100},
	}}
	small := *n
	small.NodeMaxAllocs = 2
	half := func(id string) *model.Allocation { return allocOf(id, 50, 50, 50) }
	as := func(as ...*model.Allocation) []*model.Allocation { return as }
	ended, elsewhere, nothing := half("ended"), half("elsewhere"), half("nothing")
	ended.ClientStatus, elsewhere.NodeID, nothing.AllocatedResources = model.AllocClientStatusComplete, "m", nil
	stopping := half("stopping")
	stopping.DesiredStatus = model.AllocDesiredStatusStop
	for name, c := range map[string]struct {
		node        *model.Node
		there       []*model.Allocation
		stop, place []*model.Allocation
		want        string
	}{
		"exactly as much as there is":             {n, as(half("a")), nil, as(half("b")), ""},
		"too much cpu":                            {n, as(half("a")), nil, as(allocOf("b", 51, 1, 1)), "cpu"},
		"too much memory":                         {n, as(half("a")), nil, as(allocOf("b", 1, 51, 1)), "memory"},
		"too much disk":                           {n, as(half("a")), nil, as(allocOf("b", 1, 1, 51)), "disk"},
		"two together are too much":               {n, as(half("a")), nil, as(allocOf("b", 30, 1, 1), allocOf("c", 30, 1, 1)), "cpu"},
		"what places nothing":                     {n, as(half("a"), half("b"), half("c")), as(half("a")), nil, ""},
		"what is stopped makes room":              {n, as(half("a"), half("b")), as(half("a")), as(half("c")), ""},
		"and no more than once":                   {n, as(half("a"), half("b")), as(half("a"), half("a")), as(half("c"), half("d")), "cpu"},
		"what has ended makes none":               {n, as(ended, half("b"), half("c")), as(ended), as(half("d")), "cpu"},
		"what is on another node makes none":      {n, as(elsewhere, half("b"), half("c")), as(elsewhere), as(half("d")), "cpu"},
		"nor what is unknown or has nothing":      {n, as(nothing, half("b"), half("c")), as(nothing, half("gone")), as(half("d")), "cpu"},
		"what should stop is there until it ends": {n, as(stopping, half("b")), nil, as(half("c")), "cpu"},
		"an alloc without resources needs none":   {n, as(half("a"), half("b")), nil, as(nothing), ""},

		"as many allocs as it may have":     {&small, as(allocOf("a", 1, 1, 1)), nil, as(allocOf("b", 1, 1, 1)), ""},
		"too many allocs":                   {&small, as(allocOf("a", 1, 1, 1), allocOf("b", 1, 1, 1)), nil, as(allocOf("c", 1, 1, 1)), "max allocs exceeded"},
		"one of them is stopped":            {&small, as(allocOf("a", 1, 1, 1), allocOf("b", 1, 1, 1)), as(allocOf("a", 1, 1, 1)), as(allocOf("c", 1, 1, 1)), ""},
		"one of them has ended":             {&small, as(allocOf("a", 1, 1, 1), ended), nil, as(allocOf("c", 1, 1, 1)), ""},
		"another port":                      {n, as(port(allocOf("a", 1, 1, 1), 80)), nil, as(port(allocOf("b", 1, 1, 1), 81)), ""},
		"the same port, of what is stopped": {n, as(port(allocOf("a", 1, 1, 1), 80)), as(allocOf("a", 1, 1, 1)), as(port(allocOf("b", 1, 1, 1), 80)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := feasible.Fits(full{allocs: c.there}, c.node, feasible.Change{Stop: c.stop, Place: c.place}); got != c.want {
				t.Errorf("it lacks %q, not %q", got, c.want)
			}
		})
	}
	for name, place := range map[string][]*model.Allocation{
		"of one that is there": as(port(allocOf("b", 1, 1, 1), 80)), "of two that come together": as(port(allocOf("b", 1, 1, 1), 81), port(allocOf("c", 1, 1, 1), 81)),
	} {
		v := full{allocs: as(port(allocOf("a", 1, 1, 1), 80))}
		if got := feasible.Fits(v, n, feasible.Change{Place: place}); got == "" {
			t.Errorf("the same port %s fits", name)
		}
	}
}

func TestTwoStatesOfANodeHaveTheSameRoomIfAllThatFitsReadsIsEqual(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*model.Node)
		same bool
	}{
		"nothing":         {func(*model.Node) {}, true},
		"its status":      {func(n *model.Node) { n.Status = "down" }, true},
		"its limit":       {func(n *model.Node) { n.NodeMaxAllocs = 3 }, false},
		"its resources":   {func(n *model.Node) { n.NodeResources = &model.NodeResources{} }, false},
		"what it keeps":   {func(n *model.Node) { n.ReservedResources = &model.NodeReservedResources{} }, false},
		"host volumes":    {func(n *model.Node) { n.HostVolumes = map[string]*model.HostVolumeConfig{"v": {}} }, false},
		"storage plugins": {func(n *model.Node) { n.CSINodePlugins = map[string]*model.CSIInfo{"p": {}} }, false},
	} {
		a, b := &model.Node{}, &model.Node{}
		if c.edit(b); feasible.SameRoom(a, b) != c.same {
			t.Errorf("%s: the same room: %t", name, !c.same)
		}
	}
}
