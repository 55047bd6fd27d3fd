// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// sockets is a machine of NUMA nodes with so many cores each, in which core 0 is of node 0,
// core 1 of node 1 and so on, as some firmware counts them. Each node has a GPU with a link.
func sockets(nodes, cores int) *model.Node {
	n := &model.Node{ID: "n", Attributes: map[string]string{"driver.raw_exec": "1"}, NodeResources: &model.NodeResources{}}
	top := &model.Topology{}
	gpus := &model.NodeDeviceResource{Vendor: "acme", Type: "gpu", Name: "x1", Attributes: map[string]*model.Attribute{"memory": whole(80)}}
	for i := range nodes {
		top.Nodes = append(top.Nodes, uint8(i))
		var row model.ByteList
		for j := range nodes { // a ring
			away := min((i-j+nodes)%nodes, (j-i+nodes)%nodes)
			row = append(row, uint8(10+10*away))
		}
		top.Distances = append(top.Distances, row)
		gpus.Instances = append(gpus.Instances, gpu(fmt.Sprint("g", i), i, int64(i)))
	}
	for c := range uint16(nodes * cores) {
		top.Cores = append(top.Cores, model.Core{ID: c, NodeID: uint8(int(c) % nodes)})
		n.NodeResources.Cpu.ReservableCpuCores = append(n.NodeResources.Cpu.ReservableCpuCores, c)
	}
	n.NodeResources.Cpu.TotalCpuCores = uint16(nodes * cores)
	n.NodeResources.Processors.Topology = top
	n.NodeResources.Devices = []*model.NodeDeviceResource{gpus}
	return n
}

func whole(v int64) *model.Attribute { return &model.Attribute{IntVal: &v} }

func gpu(id string, node int, link int64) *model.NodeDevice {
	return &model.NodeDevice{
		ID: id, Healthy: true, Locality: &model.NodeDeviceLocality{NUMANode: &node}, Attributes: map[string]*model.Attribute{"link": whole(link)},
	}
}

func group(r *model.Resources) *model.TaskGroup {
	return &model.TaskGroup{Name: "g", Tasks: []*model.Task{{Name: "t", Driver: "raw_exec", Resources: r}}}
}

// view is a state without allocs, with one job.
type view struct{ job *model.Job }

func (view) AllocByID(string) *model.Allocation      { return nil }
func (view) AllocsByNode(string) []*model.Allocation { return nil }
func (view) NodeUsed(string) (cpu, mem, disk int64)  { return 0, 0, 0 }
func (v view) JobOf(*model.Allocation) *model.Job    { return v.job }

func (v view) HostVolumeByID(string) *model.HostVolume             { return nil }
func (v view) HostVolumesByNode(string) []*model.HostVolume        { return nil }
func (v view) CSIVolumeByID(string, string) *model.CSIVolume       { return nil }
func (v view) CSIVolumeHolders(string, string) []*model.Allocation { return nil }
func (v view) CSIVolumeTwins(*model.CSIVolume) []*model.CSIVolume  { return nil }
func (v view) VolumeClaimOf(*model.VolumeClaim) *model.VolumeClaim { return nil }
func accepts(n *model.Node, tg *model.TaskGroup, r *model.AllocatedResources) string {
	return feasible.Fits(view{&model.Job{TaskGroups: []*model.TaskGroup{tg}}}, n, feasible.Change{Place: []*model.Allocation{{TaskGroup: "g", AllocatedResources: r}}})
}

func TestRequiredCoresAndDevicesAreOfOneNUMANodeOrNone(t *testing.T) {
	n := sockets(2, 2)
	tg := group(&model.Resources{
		Cores: 2, Devices: []*model.RequestedDevice{{Name: "gpu", Count: 1}}, NUMA: &model.NUMA{Affinity: model.NUMARequire, Devices: []string{"gpu"}},
	})
	c, u := feasible.NewChecker(&model.Job{}, tg), feasible.UsageOf(n, nil)
	got := map[string][]uint16{}
	for range 2 {
		res, why := feasible.Assign(c, u, tg, n, "id", false)
		if why != "" {
			t.Fatal(why)
		}
		task := res.Tasks["t"]
		got[task.Devices[0].DeviceIDs[0]] = task.Cpu.ReservedCores
		if why := accepts(n, tg, res); why != "" {
			t.Errorf("the applier refuses what was proposed: %s", why)
		}
	}
	if !slices.Equal(got["g0"], []uint16{0, 2}) || !slices.Equal(got["g1"], []uint16{1, 3}) {
		t.Errorf("devices with cores %v; want g0 with 0 and 2, g1 with 1 and 3", got)
	}
	// One core of each node is taken: each has a GPU and a core, and none has both cores.
	taken := &model.Allocation{AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{
		"t": {Cpu: model.AllocatedCpuResources{ReservedCores: []uint16{0, 1}}},
	}}}
	if _, why := feasible.Assign(c, feasible.UsageOf(n, []*model.Allocation{taken}), tg, n, "id", false); why != feasible.ReasonNUMA {
		t.Errorf("on a node where no NUMA node has both: %q, want %q", why, feasible.ReasonNUMA)
	}
	tg.Tasks[0].Resources.NUMA.Affinity = model.NUMAPrefer
	res, why := feasible.Assign(c, feasible.UsageOf(n, []*model.Allocation{taken}), tg, n, "id", false)
	if why != "" || len(res.Tasks["t"].Cpu.ReservedCores) != 2 {
		t.Errorf("a task that only prefers it: %+v, %q", res, why)
	}
}

func TestTheApplierRefusesWhatIsNotOfOneNUMANode(t *testing.T) {
	n := sockets(2, 2)
	ask := []*model.RequestedDevice{{Name: "gpu", Count: 1}}
	tg := group(&model.Resources{Cores: 1, Devices: ask, NUMA: &model.NUMA{Affinity: model.NUMARequire, Devices: []string{"gpu"}}})
	has := func(core uint16, id string) *model.AllocatedResources {
		return &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": {
			Cpu:     model.AllocatedCpuResources{ReservedCores: []uint16{core}},
			Devices: []*model.AllocatedDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{id}}},
		}}}
	}
	if why := accepts(n, tg, has(1, "g1")); why != "" {
		t.Errorf("core and device of one node: %q", why)
	}
	for _, id := range []string{"g0", "gone"} { // of the other node, and no longer there
		if why := accepts(n, tg, has(1, id)); why != feasible.ReasonNUMA {
			t.Errorf("core 1 with %s: %q", id, why)
		}
	}
	n.NodeResources.Devices[0].Instances[1].Locality = nil // nobody knows where it is
	if why := accepts(n, tg, has(1, "g1")); why != feasible.ReasonNUMA {
		t.Errorf("a device of an unknown place: %q", why)
	}
	tg.Tasks[0].Resources.NUMA.Devices = nil // only the cores matter
	if why := accepts(n, tg, has(1, "g0")); why != "" {
		t.Errorf("a device that the block does not name: %q", why)
	}
	one := sockets(1, 2)
	one.NodeResources.Devices[0].Instances[0].Locality = nil
	tg.Tasks[0].Resources.NUMA.Devices = []string{"gpu"}
	if why := accepts(one, tg, has(1, "g0")); why != "" {
		t.Errorf("on a machine of one NUMA node: %q", why)
	}
}

func TestCoresOfOneNodeAreTakenSoThatOthersRemainWhole(t *testing.T) {
	n := sockets(2, 4)
	first := &model.Allocation{AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{
		"t": {Cpu: model.AllocatedCpuResources{ReservedCores: []uint16{1, 3}}}, // two of node 1
	}}}
	tg := group(&model.Resources{Cores: 2, NUMA: &model.NUMA{Affinity: model.NUMAPrefer}})
	res, why := feasible.Assign(feasible.NewChecker(&model.Job{}, tg), feasible.UsageOf(n, []*model.Allocation{first}), tg, n, "id", false)
	if why != "" || !slices.Equal(res.Tasks["t"].Cpu.ReservedCores, []uint16{5, 7}) {
		t.Errorf("got %+v, %q; want the rest of node 1", res, why)
	}
}

func TestWhatDoesNotFitOneNodeIsTakenFromNeighbours(t *testing.T) {
	n := sockets(4, 2) // a ring: node 2 is twice as far from node 0 as nodes 1 and 3
	tg := group(&model.Resources{Cores: 4, NUMA: &model.NUMA{Affinity: model.NUMAPrefer}})
	res, why := feasible.Assign(feasible.NewChecker(&model.Job{}, tg), feasible.UsageOf(n, nil), tg, n, "id", false)
	if why != "" {
		t.Fatal(why)
	}
	nodes := map[uint16]bool{}
	for _, c := range res.Tasks["t"].Cpu.ReservedCores {
		nodes[c%4] = true
	}
	if len(nodes) != 2 || nodes[0] && nodes[2] || nodes[1] && nodes[3] {
		t.Errorf("cores %v of nodes %v, which are not neighbours", res.Tasks["t"].Cpu.ReservedCores, nodes)
	}
}

func TestADeviceIsChosenByItsOwnAttributes(t *testing.T) {
	n := sockets(3, 1)
	ask := func(op, v string, weight int8) *model.RequestedDevice {
		out := &model.RequestedDevice{Name: "gpu", Count: 1}
		if weight == 0 {
			out.Constraints = []*model.Constraint{{LTarget: "${device.attr.link}", Operand: op, RTarget: v}}
		} else {
			out.Affinities = []*model.Affinity{{LTarget: "${device.attr.link}", Operand: op, RTarget: v, Weight: weight}}
		}
		return out
	}
	for want, d := range map[string]*model.RequestedDevice{"g1": ask("=", "1", 0), "g2": ask("=", "2", 50), "g0": {Name: "gpu", Count: 1}} {
		tg := group(&model.Resources{Devices: []*model.RequestedDevice{d}})
		c := feasible.NewChecker(&model.Job{}, tg)
		if why := c.Check(n); why != "" {
			t.Errorf("%s: the node is refused: %s", want, why)
		}
		res, why := feasible.Assign(c, feasible.UsageOf(n, nil), tg, n, "id", false)
		if why != "" || res.Tasks["t"].Devices[0].DeviceIDs[0] != want {
			t.Errorf("got %+v, %q; want %s", res, why, want)
		}
	}
	tg := group(&model.Resources{Devices: []*model.RequestedDevice{ask("=", "7", 0)}})
	if why := feasible.NewChecker(&model.Job{}, tg).Check(n); why != feasible.ReasonDevices {
		t.Errorf("an attribute that no device has: %q", why)
	}
	// What is of the group holds for all of them, also several at a time.
	all := &model.RequestedDevice{Name: "gpu", Count: 3, Constraints: []*model.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "40"}}}
	tg = group(&model.Resources{Devices: []*model.RequestedDevice{all}})
	c := feasible.NewChecker(&model.Job{}, tg)
	if res, why := feasible.Assign(c, feasible.UsageOf(n, nil), tg, n, "id", false); c.Check(n) != "" || why != "" || len(res.Tasks["t"].Devices[0].DeviceIDs) != 3 {
		t.Errorf("three that differ: %+v, %q, %q", res, why, c.Check(n))
	}
}

// TestWhatIsChosenNearIsAccepted: whatever Assign proposes under numa fits, and a
// requirement fails only where nothing of one NUMA node would do.
func TestWhatIsChosenNearIsAccepted(t *testing.T) {
	refused := 0
	for seed := range uint64(400) {
		d := dice{rand.New(rand.NewPCG(seed, 11))}
		nodes, cores := 1+d.IntN(4), 1+d.IntN(4)
		n := sockets(nodes, cores)
		taken := &model.AllocatedTaskResources{}
		free := map[int]int{}
		for c := range uint16(nodes * cores) {
			if d.IntN(3) == 0 {
				taken.Cpu.ReservedCores = append(taken.Cpu.ReservedCores, c)
			} else {
				free[int(c)%nodes]++
			}
		}
		for i, g := range n.NodeResources.Devices[0].Instances {
			if g.Healthy = d.maybe(); !g.Healthy {
				free[i] = -1 // without a GPU its cores are of no use
			}
		}
		want := 1 + d.IntN(cores)
		tg := group(&model.Resources{
			Cores: want, Devices: []*model.RequestedDevice{{Name: "gpu", Count: 1}},
			NUMA: &model.NUMA{Affinity: d.of(model.NUMAPrefer, model.NUMARequire), Devices: []string{"gpu"}},
		})
		u := feasible.UsageOf(n, []*model.Allocation{{AllocatedResources: &model.AllocatedResources{Tasks: map[string]*model.AllocatedTaskResources{"t": taken}}}})
		res, why := feasible.Assign(feasible.NewChecker(&model.Job{}, tg), u, tg, n, "id", false)
		possible := false
		for _, left := range free {
			possible = possible || left >= want
		}
		switch {
		case why == "":
			if no := accepts(n, tg, res); no != "" {
				t.Fatalf("seed %d: proposed and refused: %s", seed, no)
			}
			if possible && !feasible.Local(n, tg.Tasks[0].Resources, res.Tasks["t"]) {
				t.Fatalf("seed %d: %+v is not of one node, and another choice would be", seed, res.Tasks["t"])
			}
		case why == feasible.ReasonNUMA && (possible || tg.Tasks[0].Resources.NUMA.Affinity == model.NUMAPrefer):
			t.Fatalf("seed %d: %q, and a node has %v", seed, why, free)
		case why == feasible.ReasonNUMA:
			refused++
		}
	}
	if refused < 20 {
		t.Errorf("only %d were refused: the test says little", refused)
	}
}
