// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// NodeTraits are all properties of a node that decide which groups may run there,
// regardless of its load and without properties unique to it. This is the only list of
// these inputs: checks that run once per class of nodes see nothing else
// (schedule/feasible), and the class is a hash of NodeTraits.
type NodeTraits struct {
	Datacenter   string
	NodePool     string
	NodeClass    string
	Attributes   map[string]string // the node's own: nobody looks up unique.* here, and the class leaves it out
	Meta         map[string]string // the same
	Drivers      map[string]bool   // whether the driver is detected and healthy
	HostVolumes  map[string]bool   // whether the volume is read-only
	NetworkModes []string
	HostNetworks []string // the networks in which the node has an address
	Devices      []DeviceTraits
}

// DeviceTraits is a set of identical devices of a node: the devices of one group that have
// the same attributes.
type DeviceTraits struct {
	Vendor     string
	Type       string
	Name       string
	Attributes map[string]*Attribute
	Healthy    uint64 // number of healthy instances
}

// Traits returns the properties of the node that checks per class see.
func (n *Node) Traits() *NodeTraits {
	t := &NodeTraits{
		Datacenter: n.Datacenter, NodePool: n.NodePool, NodeClass: n.NodeClass,
		Attributes: n.Attributes, Meta: n.Meta,
		Drivers: make(map[string]bool, len(n.Drivers)), HostVolumes: make(map[string]bool, len(n.HostVolumes)),
	}
	for name, d := range n.Drivers {
		if d != nil {
			t.Drivers[name] = d.Detected && d.Healthy
		}
	}
	for name, v := range n.HostVolumes {
		if v != nil {
			t.HostVolumes[name] = v.ReadOnly
		}
	}
	if n.NodeResources != nil {
		t.addResources(n.NodeResources)
	}
	return t
}

// common returns the entries whose keys are not marked as unique to a node.
func common(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		if !strings.HasPrefix(k, "unique.") {
			out[k] = v
		}
	}
	return out
}

func (t *NodeTraits) addResources(r *NodeResources) {
	for _, nw := range r.Networks {
		t.NetworkModes = append(t.NetworkModes, nw.Mode)
		if nw.IP != "" {
			t.HostNetworks = append(t.HostNetworks, DefaultHostNetwork)
		}
	}
	for _, nw := range r.NodeNetworks {
		t.NetworkModes = append(t.NetworkModes, nw.Mode)
		for _, a := range nw.Addresses {
			t.HostNetworks = append(t.HostNetworks, a.Alias)
		}
	}
	for _, d := range r.Devices {
		for _, s := range d.Alike() {
			dt := DeviceTraits{Vendor: d.Vendor, Type: d.Type, Name: d.Name, Attributes: s.Attributes}
			for _, i := range s.Instances {
				if i.Healthy {
					dt.Healthy++
				}
			}
			t.Devices = append(t.Devices, dt)
		}
	}
}

// ComputeClass returns a hash of the node's traits. Nodes of one class give the same
// answer to every check that does not use unique values, so the scheduler checks only
// one of them. Whoever registers a node stores the class in Node.ComputedClass.
func (n *Node) ComputeClass() string {
	h, t := fnv.New64a(), n.Traits()
	t.Attributes, t.Meta = common(t.Attributes), common(t.Meta)
	// json sorts the keys of maps, so equal traits have equal bytes. Encoding fails
	// only for a device attribute that is infinite or not a number.
	if err := json.NewEncoder(h).Encode(t); err != nil {
		return "v2:" + n.ID // a class of its own
	}
	return fmt.Sprintf("v2:%d", h.Sum64())
}

// DefaultHostNetwork is the host network of ports that do not name one.
const DefaultHostNetwork = "default"

// String returns the value with its unit, in the notation of job files.
func (a *Attribute) String() string {
	var v any
	switch {
	case a == nil:
		return ""
	case a.FloatVal != nil:
		v = *a.FloatVal
	case a.IntVal != nil:
		v = *a.IntVal
	case a.StringVal != nil:
		return *a.StringVal
	case a.BoolVal != nil:
		v = *a.BoolVal
	default:
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(v, " ", a.Unit))
}
