// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule/feasible"
)

func TestDeviceAttributesCompareAcrossUnits(t *testing.T) {
	size := int64(2048)
	n := &model.Node{ID: "n", Drivers: map[string]*model.DriverInfo{"d": {Detected: true, Healthy: true}}, NodeResources: &model.NodeResources{Devices: []*model.NodeDeviceResource{{
		Vendor: "v", Type: "gpu", Name: "x", Instances: []*model.NodeDevice{{ID: "i", Healthy: true}},
		Attributes: map[string]*model.Attribute{"memory": {IntVal: &size, Unit: "MiB"}},
	}}}}
	for value, want := range map[string]map[string]bool{
		"1 GiB":      {">": true, "<": false, "=": false},
		"2 GiB":      {"=": true, ">=": true, "!=": false},
		"2097152KiB": {"=": true},
		"3 GB":       {">=": false, "<": true},
		"2GB":        {">": true},
		"100 W":      {"=": false}, // another dimension is never equal
		"1 GiB/s":    {"=": false},
	} {
		for operand, fits := range want {
			ask := &model.RequestedDevice{Name: "gpu", Count: 1, Constraints: []*model.Constraint{{LTarget: "${device.attr.memory}", Operand: operand, RTarget: value}}}
			tg := &model.TaskGroup{Tasks: []*model.Task{{Name: "t", Driver: "d", Resources: &model.Resources{Devices: []*model.RequestedDevice{ask}}}}}
			why := feasible.NewChecker(&model.Job{}, tg).Check(n)
			if (why == "") != fits {
				t.Errorf("2048 MiB %s %s: %q, want it to fit: %v", operand, value, why, fits)
			}
		}
	}
}
