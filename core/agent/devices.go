// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"reflect"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/device"
)

// addDevices writes the devices that plugins found into the node.
func addDevices(n *model.Node, prints []pluginhost.DeviceFingerprint) {
	n.NodeResources.Devices = nil
	for _, p := range prints {
		for _, g := range p.Groups {
			r := &model.NodeDeviceResource{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Attributes: map[string]*model.Attribute{}}
			for _, i := range g.Instances {
				d := &model.NodeDevice{ID: i.ID, Healthy: i.Healthy, HealthDescription: i.HealthDescription}
				if i.PCIBusID != "" {
					d.Locality = &model.NodeDeviceLocality{PciBusID: i.PCIBusID}
				}
				r.Instances = append(r.Instances, d)
			}
			for name, a := range g.Attributes {
				r.Attributes[name] = attributeOf(a)
			}
			n.NodeResources.Devices = append(n.NodeResources.Devices, r)
		}
	}
}

func attributeOf(a device.Attribute) *model.Attribute {
	return &model.Attribute{IntVal: a.Int, FloatVal: a.Float, StringVal: a.Text, BoolVal: a.Bool, Unit: a.Unit}
}

func sameDevices(a, b *model.Node) bool {
	return reflect.DeepEqual(a.NodeResources.Devices, b.NodeResources.Devices)
}
