// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/device"
)

// DeviceGroups returns the devices of a fingerprint as servers and users know them. bus
// returns the NUMA node of an address on the PCI bus, for devices whose plugin does not
// know it.
func DeviceGroups(p DeviceFingerprint, bus func(pci string) (node int, ok bool)) []*model.NodeDeviceResource {
	var out []*model.NodeDeviceResource
	for _, g := range p.Groups {
		r := &model.NodeDeviceResource{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Attributes: map[string]*model.Attribute{}}
		for _, i := range g.Instances {
			d := &model.NodeDevice{ID: i.ID, Healthy: i.Healthy, HealthDescription: i.HealthDescription, Locality: localityOf(i, bus)}
			for name, a := range i.Attributes {
				if d.Attributes == nil {
					d.Attributes = map[string]*model.Attribute{}
				}
				d.Attributes[name] = attributeOf(a)
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

func localityOf(i device.Instance, bus func(string) (int, bool)) *model.NodeDeviceLocality {
	node := i.NUMANode
	if node == nil && i.PCIBusID != "" && bus != nil {
		if n, ok := bus(i.PCIBusID); ok {
			node = &n
		}
	}
	if i.PCIBusID == "" && node == nil {
		return nil
	}
	return &model.NodeDeviceLocality{PciBusID: i.PCIBusID, NUMANode: node}
}

func attributeOf(a device.Attribute) *model.Attribute {
	return &model.Attribute{IntVal: a.Int, FloatVal: a.Float, StringVal: a.Text, BoolVal: a.Bool, Unit: a.Unit}
}
