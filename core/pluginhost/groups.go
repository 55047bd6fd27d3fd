// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
)

// DeviceGroups returns the devices of a fingerprint as servers and users know them.
func DeviceGroups(p DeviceFingerprint) []*model.NodeDeviceResource {
	var out []*model.NodeDeviceResource
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
		out = append(out, r)
	}
	return out
}

func attributeOf(a device.Attribute) *model.Attribute {
	return &model.Attribute{IntVal: a.Int, FloatVal: a.Float, StringVal: a.Text, BoolVal: a.Bool, Unit: a.Unit}
}
