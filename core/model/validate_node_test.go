// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const nodeID = "11111111-2222-3333-4444-555555555555"

func goodNode() *model.Node {
	return &model.Node{
		ID: nodeID, SecretID: "s", Name: "n", NodePool: "gpu_1", Attributes: map[string]string{"a": "b"},
		NodeResources: &model.NodeResources{
			Cpu: model.NodeCpuResources{CpuShares: 4000}, MinDynamicPort: 20000, MaxDynamicPort: 32000,
			NodeNetworks: []*model.NodeNetworkResource{{Addresses: []model.NodeNetworkAddress{{Address: "10.0.0.1", ReservedPorts: "22,80, 8500-8600"}}}},
			Devices:      []*model.NodeDeviceResource{{Name: "d", Attributes: map[string]*model.Attribute{"x": {}}}},
		},
		ReservedResources: &model.NodeReservedResources{},
	}
}

func TestARegistrationThatNoNodeOfOursSendsIsRefusedAndTheFieldNamed(t *testing.T) {
	if err := goodNode().ValidateRegistration(); err != nil {
		t.Fatal(err)
	}
	if err := (*model.Node)(nil).ValidateRegistration(); !errdefs.IsInvalidArgument(err) {
		t.Errorf("nil: %v", err)
	}
	nan := math.NaN()
	for field, change := range map[string]func(*model.Node){
		"is not an id of a node: it must be a UUID":                                func(n *model.Node) { n.ID = "" },
		"\"../../etc\" is not an id of a node":                                     func(n *model.Node) { n.ID = "../../etc" },
		"aaa\" is not an id of a node":                                             func(n *model.Node) { n.ID = strings.Repeat("a", 1<<20) },
		"with an id and a secret":                                                  func(n *model.Node) { n.SecretID = "" },
		"this secret has 1048576":                                                  func(n *model.Node) { n.SecretID = strings.Repeat("a", 1<<20) },
		"is not a node pool":                                                       func(n *model.Node) { n.NodePool = "../x" },
		"\"all\" is not a node pool":                                               func(n *model.Node) { n.NodePool = "all" },
		"Name has 1000 bytes":                                                      func(n *model.Node) { n.Name = strings.Repeat("a", 1000) },
		"Node.Attributes[\"a\"] has 1048576 bytes; at most 65536":                  func(n *model.Node) { n.Attributes["a"] = strings.Repeat("a", 1<<20) },
		"Node.Attributes has 10001 entries; at most 8192":                          func(n *model.Node) { fill(n.Attributes, 10_000, 1) },
		"the whole gets larger than the 4194304 bytes":                             func(n *model.Node) { fill(n.Attributes, 1000, 60_000) },
		"Meta has a key":                                                           func(n *model.Node) { n.Meta = map[string]string{strings.Repeat("k", 1000): ""} },
		"Node.HostVolumes[\"v\"] is null":                                          func(n *model.Node) { n.HostVolumes = map[string]*model.HostVolumeConfig{"v": nil} },
		"Node.CSINodePlugins[\"p\"] is null":                                       func(n *model.Node) { n.CSINodePlugins = map[string]*model.CSIInfo{"p": nil} },
		"Node.Drivers[\"d\"] is null":                                              func(n *model.Node) { n.Drivers = map[string]*model.DriverInfo{"d": nil} },
		"Node.NodeResources.Networks[0] is null":                                   func(n *model.Node) { n.NodeResources.Networks = []*model.NetworkResource{nil} },
		"Node.NodeResources.NodeNetworks[1] is null":                               func(n *model.Node) { n.NodeResources.NodeNetworks = append(n.NodeResources.NodeNetworks, nil) },
		"Node.NodeResources.Devices[0].Instances[0] is null":                       func(n *model.Node) { n.NodeResources.Devices[0].Instances = []*model.NodeDevice{nil} },
		"Node.NodeResources.Devices[0].Attributes[\"x\"] is null":                  func(n *model.Node) { n.NodeResources.Devices[0].Attributes["x"] = nil },
		"Node.NodeResources.Devices[0].Attributes[\"x\"].FloatVal is not a number": func(n *model.Node) { n.NodeResources.Devices[0].Attributes["x"].FloatVal = &nan },
		"Drivers[\"d\"].UpdateTime is in the year 20000": func(n *model.Node) {
			n.Drivers = map[string]*model.DriverInfo{"d": {UpdateTime: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}}
		},
		"NodeResources.Cpu.CpuShares is -1":                                       func(n *model.Node) { n.NodeResources.Cpu.CpuShares = -1 },
		"ReservedResources.Memory.MemoryMB is 18446744073709551615":               func(n *model.Node) { n.ReservedResources.Memory.MemoryMB = math.MaxUint64 },
		"dynamic ports 20000 to 70000":                                            func(n *model.Node) { n.NodeResources.MaxDynamicPort = 70000 },
		"ReservedHostPorts: \"x\" is neither a port nor a range":                  func(n *model.Node) { n.ReservedResources.Networks.ReservedHostPorts = "22,x" },
		"Addresses.ReservedPorts names 131072 ports, some of them more than once": func(n *model.Node) { n.NodeResources.NodeNetworks[0].Addresses[0].ReservedPorts = "0-65535,0-65535" },
	} {
		n := goodNode()
		change(n)
		if err := n.ValidateRegistration(); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), field) || len(err.Error()) > 500 {
			t.Errorf("%s: %.500v", field, err)
		}
	}
}

func fill(m map[string]string, n, size int) {
	for i := range n {
		m[fmt.Sprint("k", i)] = strings.Repeat("v", size)
	}
}

// TestHostileEveryNullInARegistrationIsRefused makes a node in which each object of
// each list and map is there, then takes them away one by one.
func TestHostileEveryNullInARegistrationIsRefused(t *testing.T) {
	var places []string
	count := 0
	for nth := 0; ; nth++ {
		n := goodNode()
		left := nth
		place, found := dropNth(reflect.ValueOf(n), "Node", &left)
		if !found {
			break
		}
		count++
		places = append(places, place)
		if err := n.ValidateRegistration(); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "is null") {
			t.Errorf("%s is null: %v", place, err)
		}
	}
	if count < 13 {
		t.Errorf("only %d places were tried: %q", count, places)
	}
}

// dropNth fills lists and maps of objects on the way with one object each, and puts
// null in the place of the n-th.
func dropNth(v reflect.Value, place string, n *int) (string, bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem().Kind() != reflect.Struct {
			return "", false
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return dropNth(v.Elem(), place, n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return "", false
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				if place, found := dropNth(f, place+"."+v.Type().Field(i).Name, n); found {
					return place, true
				}
			}
		}
	case reflect.Slice, reflect.Map:
		return dropIn(v, place, n)
	}
	return "", false
}

func dropIn(v reflect.Value, place string, n *int) (string, bool) {
	t := v.Type().Elem()
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Struct {
		return "", false
	}
	e := reflect.New(t).Elem()
	null := *n == 0 && t.Kind() == reflect.Pointer
	if t.Kind() == reflect.Pointer {
		*n--
	}
	found := null
	if !null {
		if t.Kind() == reflect.Pointer {
			e.Set(reflect.New(t.Elem()))
		}
		place, found = dropNth(e, place, n)
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), e)
	} else {
		v.Set(reflect.Append(reflect.Zero(v.Type()), e))
	}
	return place, found
}
