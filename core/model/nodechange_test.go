// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// randomRegistration returns a registration in which each kind of field is set or not.
func randomRegistration(rng *rand.Rand) *model.Node {
	text := func() string { return fmt.Sprint("v", rng.IntN(3)) }
	n := &model.Node{ID: "n", SecretID: "s", Session: rng.Uint64(), Number: rng.Uint64(), Token: text(), NodeClass: text(), NodePool: text(), NodeMaxAllocs: rng.IntN(3)}
	texts := func() map[string]string {
		if rng.IntN(4) == 0 {
			return nil
		}
		out := map[string]string{}
		for range rng.IntN(4) {
			out[fmt.Sprint("k", rng.IntN(5))] = text()
		}
		return out
	}
	n.Attributes, n.Meta, n.Links = texts(), texts(), texts()
	n.Drivers = map[string]*model.DriverInfo{}
	for range rng.IntN(3) {
		n.Drivers[text()] = &model.DriverInfo{Healthy: rng.IntN(2) == 0, Attributes: texts(), SchemaHash: text()}
	}
	n.Plugins = map[string]*model.NodePlugin{text(): {Version: text()}}
	if rng.IntN(4) > 0 {
		n.NodeResources = &model.NodeResources{MinDynamicPort: rng.IntN(2), Memory: model.NodeMemoryResources{MemoryMB: int64(rng.IntN(2))}}
		for range rng.IntN(3) {
			n.NodeResources.Devices = append(n.NodeResources.Devices, &model.NodeDeviceResource{Name: text()})
		}
	}
	if rng.IntN(2) == 0 {
		n.ReservedResources = &model.NodeReservedResources{Memory: model.NodeReservedMemoryResources{MemoryMB: uint64(rng.IntN(2))}}
	}
	for range rng.IntN(2) {
		n.Events = append(n.Events, &model.NodeEvent{Message: text()})
	}
	return n
}

// withoutEmpty makes maps without entries nil: both mean the same.
func withoutEmpty(n *model.Node) *model.Node {
	n = n.Copy()
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Map && f.Len() == 0 {
			f.SetZero()
		}
	}
	return n
}

func TestAChangeOfARegistrationAppliedToTheOneBeforeIsTheNewOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		before, now := randomRegistration(rng), randomRegistration(rng)
		stored := before.Copy() // with what servers set
		stored.Status, stored.ModifyIndex, stored.DrainStrategy = model.NodeStatusReady, 7, &model.DrainStrategy{}
		c := model.ChangeOf(before, now)
		got := c.Apply(stored)
		if got.Session != now.Session || got.Number != now.Number || got.Token != now.Token || !reflect.DeepEqual(got.Events, now.Events) {
			t.Fatalf("%+v is not of this registration: %+v", got, now)
		}
		if g, want := withoutEmpty(got.Registration()), withoutEmpty(now.Registration()); !reflect.DeepEqual(g, want) {
			t.Fatalf("\n%+v\nis not\n%+v\nafter %+v", g, want, c)
		}
		if got.Status != "" || got.ModifyIndex != 0 || got.DrainStrategy != nil {
			t.Fatalf("%+v says what servers set", got)
		}
	}
}

func TestAChangeHoldsOnlyWhatDiffers(t *testing.T) {
	before := &model.Node{ID: "n", Attributes: map[string]string{"a": "1", "b": "2"}, Drivers: map[string]*model.DriverInfo{"x": {Healthy: true}, "y": {}},
		NodeResources: &model.NodeResources{MinDynamicPort: 1, Devices: []*model.NodeDeviceResource{{Name: "d"}}}}
	now := before.Copy()
	now.Attributes = map[string]string{"a": "1", "c": "3"}
	now.Drivers = map[string]*model.DriverInfo{"x": {Healthy: false}, "y": {}}
	resources := *before.NodeResources
	resources.Devices = nil
	now.NodeResources = &resources
	c := model.ChangeOf(before, now)
	if len(c.Node.Attributes) != 1 || c.Node.Attributes["c"] != "3" || !slices.Equal(c.Gone["Attributes"], []string{"b"}) {
		t.Errorf("attributes %v, without %v", c.Node.Attributes, c.Gone)
	}
	if len(c.Node.Drivers) != 1 || c.Node.Drivers["x"] == nil || !slices.Equal(c.Resources, []string{"Devices"}) || c.Node.NodeResources.MinDynamicPort != 0 || len(c.Fields) != 0 {
		t.Errorf("%+v of %+v", c, c.Node)
	}
	if c := model.ChangeOf(now, now); c.Node.Attributes != nil || c.Node.NodeResources != nil || len(c.Fields)+len(c.Resources)+len(c.Gone) != 0 {
		t.Errorf("nothing differs: %+v", c)
	}
}

// TestFieldsThatAServerDoesNotKnowAreLeftOut: they are of a newer node, or made up.
func TestFieldsThatAServerDoesNotKnowAreLeftOut(t *testing.T) {
	c := &model.NodeChange{Node: &model.Node{ID: "n", NodeResources: &model.NodeResources{}}, Fields: []string{"Status", "Unknown"}, Resources: []string{"Unknown"}, Gone: map[string][]string{"Unknown": {"k"}}}
	c.Node.Status = "made up"
	got := c.Apply(&model.Node{ID: "n", NodeResources: &model.NodeResources{MinDynamicPort: 3}})
	if got.Status != "" || got.NodeResources.MinDynamicPort != 3 {
		t.Errorf("%+v", got)
	}
}

func TestAChangeThatNamesMoreThanARegistrationHasIsRefused(t *testing.T) {
	many := make([]string, model.NodeBounds.Entries+1)
	node := &model.Node{ID: "0a0b0c0d-0000-0000-0000-000000000001"}
	for name, c := range map[string]*model.NodeChange{
		"no change":      nil,
		"no node":        {},
		"a long id":      {Node: &model.Node{ID: strings.Repeat("x", 1<<20)}},
		"fields":         {Node: node, Fields: many},
		"resources":      {Node: node, Resources: many},
		"removed keys":   {Node: node, Gone: map[string][]string{"Attributes": many}},
		"a long name":    {Node: node, Fields: []string{strings.Repeat("x", model.NodeBounds.Text+1)}},
		"too many bytes": {Node: node, Gone: map[string][]string{"A": many[1:], "B": many[1:], "C": slices.Repeat([]string{strings.Repeat("x", 1024)}, 4096)}},
	} {
		if err := c.Validate(); !errdefs.IsInvalidArgument(err) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&model.NodeChange{Node: node, Fields: []string{"Name"}, Gone: map[string][]string{"Attributes": {"a", "a", ""}}}).Validate(); err != nil {
		t.Error(err)
	}
}
