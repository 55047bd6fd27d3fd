// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

func devices(vendor, name string, ids ...string) *model.NodeDeviceResource {
	g := &model.NodeDeviceResource{Vendor: vendor, Type: "gpu", Name: name}
	for _, id := range ids {
		g.Instances = append(g.Instances, &model.NodeDevice{ID: id, Healthy: true})
	}
	return g
}

func assigned(n *model.Node, asks ...*model.RequestedDevice) ([]*model.AllocatedDeviceResource, string) {
	tg := &model.TaskGroup{Tasks: []*model.Task{{Name: "t", Resources: &model.Resources{Devices: asks}}}}
	res, why := feasible.Assign(feasible.NewChecker(&model.Job{}, tg), feasible.UsageOf(n, nil), tg, n, "id", false)
	if why != "" {
		return nil, why
	}
	return res.Tasks["t"].Devices, ""
}

func TestARequestLeavesALaterOneTheDevicesThatOnlyThatOneCanUse(t *testing.T) {
	n := &model.Node{ID: "n", NodeResources: &model.NodeResources{Devices: []*model.NodeDeviceResource{devices("nvidia", "a100", "a"), devices("nvidia", "t4", "t")}}}
	got, why := assigned(n, &model.RequestedDevice{Name: "nvidia/gpu", Count: 1}, &model.RequestedDevice{Name: "nvidia/gpu/a100", Count: 1})
	if why != "" || got[0].Name != "t4" || got[1].Name != "a100" {
		t.Errorf("%+v, %q", got, why)
	}

	large := int64(80)
	one := devices("nvidia", "mixed", "first", "second") // of which only the first is large
	one.Instances[0].Attributes = map[string]*model.Attribute{"memory": {IntVal: &large}}
	n.NodeResources.Devices = []*model.NodeDeviceResource{one}
	needs := &model.RequestedDevice{Name: "gpu", Count: 1, Constraints: []*model.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "40"}}}
	got, why = assigned(n, &model.RequestedDevice{Name: "gpu", Count: 1}, needs)
	if why != "" || got[0].DeviceIDs[0] != "second" || got[1].DeviceIDs[0] != "first" {
		t.Errorf("of one group: %+v, %q", got, why)
	}
	if _, why := assigned(n, needs, needs); why != "devices: no devices match request" {
		t.Errorf("one large device was given twice: %q", why)
	}
}

// The order of a task's requests must not decide whether a node can serve them.
func TestATaskLeavesAnotherOneTheDevicesThatOnlyThatOneCanUse(t *testing.T) {
	n := &model.Node{ID: "n", NodeResources: &model.NodeResources{Devices: []*model.NodeDeviceResource{
		devices("v", "big", "b0"), devices("v", "small", "s0"),
	}}}
	group := func(asks ...string) *model.TaskGroup {
		tg := &model.TaskGroup{Name: "g"}
		for i, ask := range asks {
			tg.Tasks = append(tg.Tasks, &model.Task{Name: string(rune('a' + i)), Resources: &model.Resources{Devices: []*model.RequestedDevice{{Name: ask, Count: 1}}}})
		}
		return tg
	}
	for _, c := range []struct {
		asks []string
		want string
	}{
		{[]string{"v/gpu", "v/gpu/big"}, "small/s0 big/b0"},
		{[]string{"v/gpu/big", "v/gpu"}, "big/b0 small/s0"},
		{[]string{"v/gpu", "v/gpu"}, "big/b0 small/s0"},
		{[]string{"v/gpu/big", "v/gpu/big"}, "devices: no devices match request"},
		{[]string{"v/gpu", "v/gpu", "v/gpu"}, "devices: no devices match request"},
	} {
		tg := group(c.asks...)
		res, why := feasible.Assign(feasible.NewChecker(&model.Job{}, tg), feasible.UsageOf(n, nil), tg, n, "", false)
		got := why
		if why == "" {
			var all []string
			for _, t := range tg.Tasks {
				d := res.Tasks[t.Name].Devices
				all = append(all, d[0].Name+"/"+d[0].DeviceIDs[0])
			}
			got = strings.Join(all, " ")
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.asks, got, c.want)
		}
	}
}

func TestTheOrderOfRequestsForDevicesDecidesNothing(t *testing.T) {
	names := []string{"a", "b", "c"}
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := &model.Node{ID: "n", NodeResources: &model.NodeResources{}}
		for _, name := range names {
			n.NodeResources.Devices = append(n.NodeResources.Devices, devices("v", name, []string{"0", "1", "2"}[:rng.IntN(4)]...))
		}
		var asks []*model.RequestedDevice
		for range 2 + rng.IntN(3) {
			ask := &model.RequestedDevice{Name: "v/gpu", Count: 1 + uint64(rng.IntN(2))}
			if rng.IntN(2) == 0 {
				ask.Name += "/" + names[rng.IntN(3)]
			}
			asks = append(asks, ask)
		}
		_, first := assigned(n, asks...)
		for range 4 {
			rng.Shuffle(len(asks), func(i, j int) { asks[i], asks[j] = asks[j], asks[i] })
			got, why := assigned(n, asks...)
			if why != first {
				t.Fatalf("seed %d: %q, and in another order %q", seed, first, why)
			}
			var ids []string
			for _, d := range got {
				for _, id := range d.DeviceIDs {
					ids = append(ids, d.Name+id)
				}
			}
			if slices.Sort(ids); len(slices.Compact(slices.Clone(ids))) != len(ids) {
				t.Fatalf("seed %d: a device was given twice: %q", seed, ids)
			}
		}
	}
}
