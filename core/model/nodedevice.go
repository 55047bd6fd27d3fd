// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"encoding/json"
	"maps"
	"slices"
)

// Alike is a set of instances of a group that have the same attributes.
type Alike struct {
	Attributes map[string]*Attribute // of the group and of the instances
	Instances  []*NodeDevice
}

// Alike divides the group into instances that a job cannot tell apart. The set without
// attributes of its own comes first, then the others in the order of their attributes. A
// group whose instances have none of their own is one set.
func (d *NodeDeviceResource) Alike() []Alike {
	if !slices.ContainsFunc(d.Instances, func(i *NodeDevice) bool { return len(i.Attributes) > 0 }) {
		return []Alike{{d.Attributes, d.Instances}}
	}
	sets := map[string]*Alike{}
	for _, i := range d.Instances {
		key := ""
		if len(i.Attributes) > 0 {
			// json sorts the keys of maps. It fails for a number that is infinite, which
			// ValidateRegistration refuses.
			body, err := json.Marshal(i.Attributes)
			if err != nil {
				body = []byte(i.ID)
			}
			key = string(body)
		}
		s := sets[key]
		if s == nil {
			s = &Alike{Attributes: d.Attributes}
			if key != "" {
				s.Attributes = make(map[string]*Attribute, len(d.Attributes)+len(i.Attributes))
				maps.Copy(s.Attributes, d.Attributes)
				maps.Copy(s.Attributes, i.Attributes)
			}
			sets[key] = s
		}
		s.Instances = append(s.Instances, i)
	}
	out := make([]Alike, 0, len(sets))
	for _, key := range slices.Sorted(maps.Keys(sets)) {
		out = append(out, *sets[key])
	}
	return out
}

// NUMANode returns the NUMA node to which the device is attached; false if it is not known.
func (d *NodeDevice) NUMANode() (int, bool) {
	if d.Locality == nil || d.Locality.NUMANode == nil {
		return 0, false
	}
	return *d.Locality.NUMANode, true
}

// BeyondLevel1 reports whether the node has attributes or NUMA nodes of single devices,
// which servers of capability level 1 would not store.
func (n *Node) BeyondLevel1() bool {
	if n == nil || n.NodeResources == nil {
		return false
	}
	for _, d := range n.NodeResources.Devices {
		for _, i := range d.Instances {
			if _, at := i.NUMANode(); at || len(i.Attributes) > 0 {
				return true
			}
		}
	}
	return false
}

// AtLevel1 returns the node without attributes and NUMA nodes of single devices.
func (n *Node) AtLevel1() *Node {
	if !n.BeyondLevel1() {
		return n
	}
	out, r := n.Copy(), *n.NodeResources
	out.NodeResources = &r
	r.Devices = make([]*NodeDeviceResource, 0, len(n.NodeResources.Devices))
	for _, d := range n.NodeResources.Devices {
		group := *d
		group.Instances = make([]*NodeDevice, 0, len(d.Instances))
		for _, i := range d.Instances {
			plain := *i
			plain.Attributes = nil
			if i.Locality != nil {
				plain.Locality = &NodeDeviceLocality{PciBusID: i.Locality.PciBusID}
			}
			group.Instances = append(group.Instances, &plain)
		}
		r.Devices = append(r.Devices, &group)
	}
	return out
}
