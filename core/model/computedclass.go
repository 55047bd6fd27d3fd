// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// ComputeClass returns the hash of everything of a node that placement checks
// can see, except what is unique to it (keys that start with "unique."): nodes of one
// class answer every check that is not about unique values alike, so the
// scheduler asks one of them. Whoever registers a node stores it in
// Node.ComputedClass.
func (n *Node) ComputeClass() string {
	h := fnv.New64a()
	add := func(parts ...string) {
		for _, p := range parts {
			_, _ = h.Write([]byte(p))
			_, _ = h.Write([]byte{0})
		}
	}
	add(n.Datacenter, n.NodePool, n.NodeClass)
	addMap := func(m map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !strings.HasPrefix(k, "unique.") {
				add(k, m[k])
			}
		}
		add("")
	}
	addMap(n.Attributes)
	addMap(n.Meta)
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		if d := n.Drivers[name]; d != nil {
			add(name, fmt.Sprint(d.Detected, d.Healthy))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		add(name, fmt.Sprint(n.HostVolumes[name].ReadOnly))
	}
	for _, name := range slices.Sorted(maps.Keys(n.CSINodePlugins)) {
		add(name, fmt.Sprint(n.CSINodePlugins[name].Healthy))
	}
	addResources(n.NodeResources, add)
	return fmt.Sprintf("v1:%d", h.Sum64())
}

// addResources adds the parts of a node's resources that are checked before room is counted.
func addResources(r *NodeResources, add func(...string)) {
	if r == nil {
		return
	}
	for _, nw := range r.NodeNetworks {
		add(nw.Mode)
		for _, a := range nw.Addresses {
			add(a.Alias, a.Family)
		}
	}
	for _, nw := range r.Networks {
		add(nw.Mode)
	}
	for _, d := range r.Devices {
		add(d.Vendor, d.Type, d.Name)
		for _, k := range slices.Sorted(maps.Keys(d.Attributes)) {
			add(k, d.Attributes[k].String())
		}
	}
}

// String returns the attribute's value with its unit, as job files write it.
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
