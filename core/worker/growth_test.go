// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package worker_test

import (
	"testing"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// TestANodeThatGrowsWakesWhatWaitsForRoom has one alloc more than a node can
// take, for each thing of which it may have more one day.
func TestANodeThatGrowsWakesWhatWaitsForRoom(t *testing.T) {
	gpu := func(r *model.Resources) { r.Devices = []*model.RequestedDevice{{Name: "gpu", Count: 1}} }
	core := func(r *model.Resources) { r.CPU, r.Cores = 0, 1 }
	for name, c := range map[string]struct {
		small, grown func(*model.Node)
		asks         func(*model.Resources)
	}{
		"processor":      {func(n *model.Node) { n.NodeResources.Cpu.CpuShares = 250 }, func(n *model.Node) { n.NodeResources.Cpu.CpuShares = 300 }, nil},
		"memory":         {func(n *model.Node) { n.NodeResources.Memory.MemoryMB = 25 }, func(n *model.Node) { n.NodeResources.Memory.MemoryMB = 30 }, nil},
		"limit":          {func(n *model.Node) { n.NodeMaxAllocs = 2 }, func(n *model.Node) { n.NodeMaxAllocs = 3 }, nil},
		"no limit":       {func(n *model.Node) { n.NodeMaxAllocs = 2 }, func(n *model.Node) { n.NodeMaxAllocs = 0 }, nil},
		"ports":          {ports(20000, 20001), ports(20000, 20002), nil},
		"a core":         {cores(2), cores(3), core},
		"a device":       {devices(true, true), devices(true, true, true), gpu},
		"a healed one":   {devices(true, false, true), devices(true, true, true), gpu},
		"less held back": {func(n *model.Node) { reserve(n, 800) }, func(n *model.Node) { reserve(n, 700) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeader(t, 1)
			l.node("n1", 1000)
			edit := func(change func(*model.Node)) {
				n := l.store.View().NodeByID("n1").Copy()
				r := *n.NodeResources
				n.NodeResources = &r
				change(n)
				n.ComputedClass = n.ComputeClass()
				l.propose(&fsm.RegisterNode{Node: n})
			}
			edit(c.small)
			e := l.register("j", 3, c.asks)
			l.eventually("two allocs and a blocked evaluation", func(v *state.View) bool {
				return len(v.AllocsByJob("default", "j")) == 2 && v.EvalByID(e.ID).BlockedEval != ""
			})
			edit(c.grown)
			l.eventually("the third alloc", func(v *state.View) bool { return len(v.AllocsByJob("default", "j")) == 3 })
		})
	}
}

func ports(low, high int) func(*model.Node) {
	return func(n *model.Node) { n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = low, high }
}

func reserve(n *model.Node, mhz int64) {
	n.ReservedResources = &model.NodeReservedResources{}
	n.ReservedResources.Cpu.CpuShares = uint64(mhz)
}

func cores(count int) func(*model.Node) {
	return func(n *model.Node) {
		n.NodeResources.Cpu = model.NodeCpuResources{CpuShares: 500 * int64(count), TotalCpuCores: uint16(count)}
		for i := range count {
			n.NodeResources.Cpu.ReservableCpuCores = append(n.NodeResources.Cpu.ReservableCpuCores, uint16(i))
		}
	}
}

func devices(healthy ...bool) func(*model.Node) {
	return func(n *model.Node) {
		d := &model.NodeDeviceResource{Vendor: "acme", Type: "gpu", Name: "x1"}
		for i, ok := range healthy {
			d.Instances = append(d.Instances, &model.NodeDevice{ID: string(rune('a' + i)), Healthy: ok})
		}
		n.NodeResources.Devices = []*model.NodeDeviceResource{d}
	}
}
