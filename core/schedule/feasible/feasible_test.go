// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

func TestConstraintOperators(t *testing.T) {
	n := &model.Node{
		ID: "id", Name: "name", Datacenter: "dc1", NodeClass: "big", NodePool: "default",
		Attributes: map[string]string{"os": "linux", "v": "1.10.2", "n": "9", "sigs": "A,B, C", "pre": "2.0.6-dev"}, Meta: map[string]string{"m": "x"},
	}
	for _, c := range []struct {
		l, op, r string
		want     bool
	}{
		{"${attr.os}", "=", "linux", true}, {"${attr.os}", "==", "bsd", false}, {"${attr.os}", "is", "linux", true},
		{"${attr.os}", "!=", "bsd", true}, {"${attr.none}", "!=", "bsd", true}, {"${attr.none}", "=", "", false},
		{"${attr.n}", "<", "10", true}, {"${attr.n}", ">=", "10", false}, {"${attr.os}", ">", "bsd", true},
		{"${attr.v}", "version", ">= 1.9, < 2", true}, {"${attr.v}", "version", "~> 1.9.0", false}, {"${attr.v}", "semver", "> 1.9.9", true},
		{"${attr.pre}", "semver", ">= 1.4.0", true}, {"${attr.pre}", "semver", ">= 2.0.6", false}, {"${attr.pre}", "version", ">=2.0.6", false}, {"${attr.pre}", "semver", ">= 1, >= v2.0.6", false},
		{"${attr.pre}", "semver", "< 12.0.6", true}, {"${attr.pre}", "version", "< 2.0.61", true}, {"${attr.pre}", "semver", "< 2", false}, {"${attr.v}", "version", "[", false},
		{"${attr.n}", "<=", "9", true}, {"${attr.n}", "<", "9", false}, {"${attr.n}", ">", "9", false}, {"${attr.n}", ">=", "9.0", true}, {"${attr.n}", "<", "9.5", true}, {"${attr.n}", "<", "x", true},
		{"${attr.os}", "version", ">= 1", false},
		{"${attr.os}", "regexp", "^li", true}, {"${attr.os}", "regexp", "[", false},
		{"${attr.sigs}", "set_contains", "C,A", true}, {"${attr.sigs}", "set_contains_all", "A,D", false}, {"${attr.sigs}", "set_contains_any", "D,B", true},
		{"${meta.m}", "is_set", "", true}, {"${meta.q}", "is_set", "", false}, {"${meta.q}", "is_not_set", "", true},
		{"${node.class}", "=", "big", true}, {"${node.unique.name}", "=", "name", true}, {"${node.datacenter}", "regexp", "dc", true},
		{"${node.region}", "=", "eu", true}, {"${node.region}", "=", "global", false}, {"${node.unique.name}", "!=", "${node.region}", true},
		{"${node.unique.id}", "unheard of", "id", false},
	} {
		tg := &model.TaskGroup{Constraints: []*model.Constraint{{LTarget: c.l, Operand: c.op, RTarget: c.r}}}
		if got := feasible.NewChecker(&model.Job{Region: "eu"}, tg).Check(n) == ""; got != c.want {
			t.Errorf("%s %s %s: %v, want %v", c.l, c.op, c.r, got, c.want)
		}
	}
}

func TestDevicesAreGivenOnceAndByConstraint(t *testing.T) {
	mem := func(v int64) map[string]*model.Attribute { return map[string]*model.Attribute{"memory": {IntVal: &v}} }
	n := &model.Node{ID: "n", NodeResources: &model.NodeResources{Devices: []*model.NodeDeviceResource{
		{Vendor: "nvidia", Type: "gpu", Name: "small", Attributes: mem(8), Instances: []*model.NodeDevice{{ID: "s0", Healthy: true}}},
		{Vendor: "nvidia", Type: "gpu", Name: "large", Attributes: mem(80), Instances: []*model.NodeDevice{{ID: "l0", Healthy: true}, {ID: "l1"}}},
	}}}
	ask := &model.RequestedDevice{Name: "nvidia/gpu", Count: 1, Constraints: []*model.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "40"}}}
	tg := &model.TaskGroup{Tasks: []*model.Task{{Name: "t", Resources: &model.Resources{Devices: []*model.RequestedDevice{ask}}}}}
	c := feasible.NewChecker(&model.Job{}, tg)
	u := feasible.UsageOf(n, nil)
	res, why := feasible.Assign(c, u, tg, n, "id", false)
	if why != "" || res.Tasks["t"].Devices[0].DeviceIDs[0] != "l0" {
		t.Fatalf("got %+v, %q; want l0", res, why)
	}
	if _, why := feasible.Assign(c, u, tg, n, "id", false); why != "devices: no devices match request" {
		t.Fatalf("the only healthy large one was given twice (%q)", why)
	}
}

func TestComputedClassIgnoresOnlyWhatIsUnique(t *testing.T) {
	a := &model.Node{Attributes: map[string]string{"os": "linux", "unique.hostname": "a"}}
	b := &model.Node{Attributes: map[string]string{"os": "linux", "unique.hostname": "b"}}
	if a.ComputeClass() != b.ComputeClass() {
		t.Error("nodes that differ in unique attributes only have different classes")
	}
	b.Drivers = map[string]*model.DriverInfo{"docker": {Detected: true}}
	if a.ComputeClass() == b.ComputeClass() {
		t.Error("nodes with different drivers share a class")
	}
}

func TestVolumesThatNobodyHonoursAreNotPlaced(t *testing.T) {
	n := &model.Node{ComputedClass: "c", HostVolumes: map[string]*model.HostVolumeConfig{"data": {Name: "data"}, "data[0]": {}}}
	for want, v := range map[string]*model.VolumeRequest{
		"":                         {Name: "v", Type: "host", Source: "data"},
		feasible.ReasonHostVolumes: {Name: "v", Type: "host", Source: "other", PerAlloc: true},
		feasible.ReasonVolumeType + ` "something"`: {Name: "v", Type: "something"},
	} {
		tg := &model.TaskGroup{Volumes: map[string]*model.VolumeRequest{"v": v}}
		if got := feasible.NewChecker(&model.Job{}, tg).Check(n); got != want {
			t.Errorf("%+v: got %q, want %q", v, got, want)
		}
	}
	wild := &model.TaskGroup{Volumes: map[string]*model.VolumeRequest{"v": {Type: "host", Source: "dat*"}}}
	if got := feasible.NewChecker(&model.Job{}, wild).Check(n); got != feasible.ReasonHostVolumes {
		t.Errorf("a wildcard: got %q", got)
	}
}

func TestAGroupIsPlacedOnlyWhereItsNetworkCanBeMadeAndItsDriversJoinIt(t *testing.T) {
	const cannot = `driver "d" cannot join network "bridge"`
	for _, c := range []struct {
		mode, offered, driver, want string
	}{
		{"bridge", "bridge", "host,group", ""},
		{"bridge", "", "host,group", feasible.ReasonNetwork},
		{"bridge", "none", "host,group", feasible.ReasonNetwork},
		{"bridge", "bridge", "host,task,none", cannot},
		{"bridge", "bridge", "host", cannot},
		{"bridge", "bridge", "", ""}, // it does not say
		{"none", "", "host,none", ""},
		{"none", "", "host,group", feasible.ReasonNetwork},
		{"none", "bridge", "host,group", feasible.ReasonNetwork},
		{"none", "none", "host,group", ""},
		{"none", "none", "host,none", ""},
		{"none", "", "", feasible.ReasonNetwork},
		{"none", "none", "host", `driver "d" cannot join network "none"`},
		{"host", "", "host", ""},
		{"", "", "", ""},
	} {
		n := &model.Node{Drivers: map[string]*model.DriverInfo{"d": {Detected: true, Healthy: true}}, Attributes: map[string]string{}, NodeResources: &model.NodeResources{}}
		if c.driver != "" {
			n.Attributes[model.DriverNetworksAttribute("d")] = c.driver
		}
		if c.offered != "" {
			n.NodeResources.NodeNetworks = []*model.NodeNetworkResource{{Mode: c.offered}}
		}
		tg := &model.TaskGroup{Networks: []*model.NetworkResource{{Mode: c.mode}}, Tasks: []*model.Task{{Name: "t", Driver: "d"}}}
		checker := feasible.NewChecker(&model.Job{}, tg)
		if got := checker.Check(n); got != c.want {
			t.Errorf("mode %q on a node with %q and a driver with %q: got %q, want %q", c.mode, c.offered, c.driver, got, c.want)
		}
		if got := checker.Stays(n); got != "" { // its network plugin may be starting again
			t.Errorf("mode %q: an alloc that runs may not stay: %q", c.mode, got)
		}
	}
}

func TestTheHostNetworkOfAPortMayBeNamedByThePropertyOfANode(t *testing.T) {
	n := &model.Node{
		ComputedClass: "c", Meta: map[string]string{"net": "public", "gone": "x", "unique.net": "public", "unique.gone": "x"}, Attributes: map[string]string{},
		NodeResources: &model.NodeResources{NodeNetworks: []*model.NodeNetworkResource{{Mode: "host", Addresses: []model.NodeNetworkAddress{
			{Alias: "default", Address: "10.0.0.1"}, {Alias: "public", Address: "192.0.2.1"},
		}}}},
	}
	for named, want := range map[string]struct{ ip, check, assign string }{
		"":                   {"10.0.0.1", "", ""},
		"public":             {"192.0.2.1", "", ""},
		"${meta.net}":        {"192.0.2.1", "", ""},
		"${meta.unique.net}": {"192.0.2.1", "", ""},
		"${meta.gone}":       {"", `missing host network "x" for port "p"`, `network: no address on host network "x"`},
		"${meta.none}":       {"", `invalid host network "${meta.none}" template for port "p"`, `network: invalid host network "${meta.none}" template for port "p"`},
		// Nodes of a class differ in these.
		"${meta.unique.gone}": {"", "", `network: no address on host network "x"`},
		"${meta.unique.none}": {"", "", `network: invalid host network "${meta.unique.none}" template for port "p"`},
	} {
		tg := &model.TaskGroup{Networks: []*model.NetworkResource{{DynamicPorts: []model.Port{{Label: "p", HostNetwork: named}}}}}
		c := feasible.NewChecker(&model.Job{}, tg)
		if got := c.Check(n); got != want.check {
			t.Errorf("%q: check says %q, want %q", named, got, want.check)
		}
		res, why := feasible.Assign(c, feasible.UsageOf(n, nil), tg, n, "id", false)
		if why != want.assign {
			t.Errorf("%q: assign says %q, want %q", named, why, want.assign)
		}
		if why == "" && res.Shared.Ports[0].HostIP != want.ip {
			t.Errorf("%q: the port is on %s, want %s", named, res.Shared.Ports[0].HostIP, want.ip)
		}
	}
	tg := &model.TaskGroup{Networks: []*model.NetworkResource{{ReservedPorts: []model.Port{{Label: "p", Value: 80, HostNetwork: "${meta.net}"}}}}}
	a := &model.Allocation{AllocatedResources: &model.AllocatedResources{Shared: model.AllocatedSharedResources{Ports: []model.AllocatedPortMapping{{Value: 80, HostIP: "192.0.2.1"}}}}}
	if !feasible.HoldsStaticPort(n, tg, a) {
		t.Error("an alloc with the port is not found for preemption")
	}
}
