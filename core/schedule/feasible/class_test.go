// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

// dice makes random nodes and groups out of few values, so that many meet.
type dice struct{ *rand.Rand }

func (d dice) of(values ...string) string { return values[d.IntN(len(values))] }
func (d dice) maybe() bool                { return d.IntN(2) == 0 }

func (d dice) node(id string) *model.Node {
	n := &model.Node{
		ID: id, Name: d.of("a", "b"), Datacenter: d.of("dc1", "dc2"), NodePool: d.of("default", "gpu"), NodeClass: d.of("", "big"),
		Attributes: map[string]string{"os": d.of("linux", "bsd"), "unique.host": d.of("h1", "h2"), "driver.old": d.of("1", "0")},
		Meta:       map[string]string{"rack": d.of("r1", "r2"), "unique.tag": d.of("t1", "t2")},
		Drivers: map[string]*model.DriverInfo{
			"exec": {Detected: d.maybe(), Healthy: d.maybe()},
		},
		HostVolumes: map[string]*model.HostVolumeConfig{},
		NodeResources: &model.NodeResources{
			Cpu: model.NodeCpuResources{CpuShares: int64(d.IntN(3)) * 1000},
		},
	}
	if d.maybe() {
		n.Drivers["docker"] = &model.DriverInfo{Detected: true, Healthy: d.maybe()}
	}
	if d.maybe() {
		n.HostVolumes["data"] = &model.HostVolumeConfig{ReadOnly: d.maybe()}
	}
	r := n.NodeResources
	if d.maybe() {
		r.NodeNetworks = append(r.NodeNetworks, &model.NodeNetworkResource{Mode: d.of("host", "bridge"), Addresses: []model.NodeNetworkAddress{
			{Alias: d.of("default", "public"), Address: "10.0.0." + d.of("1", "2")},
		}})
	}
	if d.maybe() {
		r.Networks = append(r.Networks, &model.NetworkResource{Mode: "host", IP: d.of("", "10.0.0.1")})
	}
	for range d.IntN(3) {
		size := int64(d.IntN(2) + 1)
		dev := &model.NodeDeviceResource{
			Vendor: "acme", Type: "gpu", Name: d.of("x1", "x2"), Attributes: map[string]*model.Attribute{"memory": {IntVal: &size, Unit: "GiB"}},
		}
		for i := range d.IntN(4) {
			one := &model.NodeDevice{ID: fmt.Sprint(id, i), Healthy: d.IntN(3) > 0}
			if d.IntN(3) == 0 { // it differs from the others of its group
				own := int64(d.IntN(2) + 1)
				one.Attributes = map[string]*model.Attribute{"memory": {IntVal: &own, Unit: "GiB"}}
			}
			dev.Instances = append(dev.Instances, one)
		}
		r.Devices = append(r.Devices, dev)
	}
	n.ComputedClass = n.ComputeClass()
	return n
}

func (d dice) group() *model.TaskGroup {
	tg := &model.TaskGroup{Name: "g", Tasks: []*model.Task{{Name: "t", Driver: d.of("exec", "docker", "old"), Resources: &model.Resources{}}}}
	for range d.IntN(3) {
		tg.Constraints = append(tg.Constraints, &model.Constraint{
			LTarget: d.of("${attr.os}", "${attr.unique.host}", "${meta.rack}", "${meta.unique.tag}", "${node.class}", "${node.pool}",
				"${node.datacenter}", "${node.unique.id}", "${node.unique.name}", "${attr.driver.old}", "${meta.none}"),
			Operand: d.of("=", "!=", "is_set", "is_not_set", "regexp"),
			RTarget: d.of("linux", "r1", "h1", "t1", "big", "gpu", "dc1", "a", "${meta.unique.tag}", "${meta.rack}", "1"),
		})
	}
	if d.maybe() {
		tg.Volumes = map[string]*model.VolumeRequest{"v": {Type: "host", Source: d.of("data", "none"), ReadOnly: d.maybe()}}
	}
	if d.maybe() {
		tg.Networks = []*model.NetworkResource{{Mode: d.of("", "host", "bridge"), DynamicPorts: []model.Port{{Label: "p", HostNetwork: d.of("", "public", "${meta.rack}", "${meta.unique.tag}", "${meta.none}")}}}}
	}
	if d.maybe() {
		ask := &model.RequestedDevice{Name: d.of("gpu", "acme/gpu", "acme/gpu/x1"), Count: uint64(1 + d.IntN(3))}
		if d.maybe() {
			ask.Constraints = []*model.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: d.of("1 GiB", "2 GiB")}}
		}
		tg.Tasks[0].Resources.Devices = []*model.RequestedDevice{ask}
	}
	return tg
}

// TestTheVerdictOfAClassIsThatOfEachOfItsNodes asks one checker, which remembers
// its answers by class, and one per node, which knows no classes.
func TestTheVerdictOfAClassIsThatOfEachOfItsNodes(t *testing.T) {
	shared := 0
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 3))}
		var nodes []*model.Node
		for i := range 40 {
			n := d.node(fmt.Sprint("n", i))
			if i > 0 && d.IntN(3) > 0 { // like another but for one thing
				id, other := n.ID, *nodes[d.IntN(i)]
				n, other.ID = &other, id
				d.alter(n)
				n.ComputedClass = n.ComputeClass()
			}
			nodes = append(nodes, n)
		}
		classes := map[string]bool{}
		for range 20 {
			job, tg := &model.Job{}, d.group()
			byClass := feasible.NewChecker(job, tg)
			for _, n := range nodes {
				alone := *n
				alone.ComputedClass = ""
				if got, want := byClass.Check(n), feasible.NewChecker(job, tg).Check(&alone); got != want {
					t.Fatalf("seed %d: node %s of class %s is %q by its class and %q by itself", seed, n.ID, n.ComputedClass, got, want)
				}
				classes[n.ComputedClass] = true
			}
		}
		shared += len(nodes) - len(classes)
	}
	if shared < 1000 {
		t.Errorf("only %d nodes shared a class: the test says little", shared)
	}
}

// alter changes one thing of a node, perhaps one that no check sees.
func (d dice) alter(n *model.Node) {
	r := *n.NodeResources
	n.NodeResources = &r
	switch d.IntN(6) {
	case 0:
		n.Attributes = map[string]string{"os": n.Attributes["os"], "unique.host": "h3", "driver.old": n.Attributes["driver.old"]}
	case 1:
		r.Memory.MemoryMB++
	case 2:
		if len(r.Devices) > 0 && len(r.Devices[0].Instances) > 0 { // a device breaks, or heals
			dev := *r.Devices[0]
			dev.Instances = append([]*model.NodeDevice{{ID: dev.Instances[0].ID, Healthy: !dev.Instances[0].Healthy}}, dev.Instances[1:]...)
			r.Devices = append([]*model.NodeDeviceResource{&dev}, r.Devices[1:]...)
		}
	case 3:
		if len(r.Devices) > 0 && len(r.Devices[0].Instances) > 0 { // one is taken out
			dev := *r.Devices[0]
			dev.Instances = dev.Instances[1:]
			r.Devices = append([]*model.NodeDeviceResource{&dev}, r.Devices[1:]...)
		}
	case 4:
		n.Drivers = map[string]*model.DriverInfo{"exec": {Detected: true, Healthy: d.maybe()}}
	case 5:
		r.Networks = []*model.NetworkResource{{Mode: "host", IP: d.of("", "10.0.0.9")}}
	}
}

func TestANodeWithABrokenDeviceDoesNotSpeakForItsLikes(t *testing.T) {
	node := func(id string, healthy bool) *model.Node {
		n := &model.Node{ID: id, Attributes: map[string]string{"driver.exec": "1"}, NodeResources: &model.NodeResources{Devices: []*model.NodeDeviceResource{{
			Vendor: "acme", Type: "gpu", Name: "x1", Instances: []*model.NodeDevice{{ID: id, Healthy: healthy}},
		}}}}
		n.ComputedClass = n.ComputeClass()
		return n
	}
	tg := &model.TaskGroup{Tasks: []*model.Task{{Driver: "exec", Resources: &model.Resources{Devices: []*model.RequestedDevice{{Name: "gpu", Count: 1}}}}}}
	c := feasible.NewChecker(&model.Job{}, tg)
	if why := c.Check(node("broken", false)); why != feasible.ReasonDevices {
		t.Errorf("the broken one: %q", why)
	}
	if why := c.Check(node("sound", true)); why != "" {
		t.Errorf("the sound one: %q", why)
	}
}
