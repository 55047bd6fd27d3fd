// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package feasible

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// NodeView is the part of the state that Fits reads.
type NodeView interface {
	AllocByID(id string) *model.Allocation
	AllocsByNode(nodeID string) []*model.Allocation
	NodeUsed(nodeID string) (cpu, mem, disk int64)
}

// PlanView is what Fits reads of the state.
type PlanView interface {
	NodeView
	VolumeView
}

// Usage is the set of used ports, cores and device instances of a node, each of which
// has one holder.
type Usage struct {
	ports   map[string]*bitmap // by address
	cores   map[uint16]bool
	devices map[string]bool // vendor/type/name/instance
}

// UsageOf collects the ports, cores and device instances that the allocs use or the
// node reserves. It is not an error here if two allocs use the same: one of them was
// asked to stop.
func UsageOf(n *model.Node, allocs []*model.Allocation) *Usage {
	u := &Usage{ports: map[string]*bitmap{}, cores: map[uint16]bool{}, devices: map[string]bool{}}
	for _, a := range allocs {
		_ = u.Add(a)
	}
	u.reserve(n)
	return u
}

// reserve adds what the node reserves. It never collides: an alloc that is older than
// the reservation keeps what it has.
func (u *Usage) reserve(n *model.Node) {
	if n.ReservedResources != nil {
		for _, p := range parsePorts(n.ReservedResources.Networks.ReservedHostPorts) {
			for _, ip := range addresses(n) {
				u.on(ip).set(p)
			}
		}
		for _, c := range n.ReservedResources.Cpu.ReservedCpuCores {
			u.cores[c] = true
		}
	}
	if n.NodeResources == nil {
		return
	}
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			for _, p := range parsePorts(a.ReservedPorts) {
				u.on(a.Address).set(p)
			}
		}
	}
}

func (u *Usage) on(ip string) *bitmap {
	b := u.ports[ip]
	if b == nil {
		b = &bitmap{}
		u.ports[ip] = b
	}
	return b
}

// Add adds everything that a uses. It returns what of that was already used, or "".
func (u *Usage) Add(a *model.Allocation) string {
	r := a.AllocatedResources
	if r == nil {
		return ""
	}
	first := ""
	for _, p := range r.Shared.Ports {
		if u.on(p.HostIP).set(p.Value) && !p.IgnoreCollision && first == "" {
			first = collision(p.Label, p.Value)
		}
	}
	for _, t := range r.Tasks {
		if why := u.addTask(t); first == "" {
			first = why
		}
	}
	return first
}

func (u *Usage) addTask(t *model.AllocatedTaskResources) string {
	first := ""
	note := func(taken bool, why string) {
		if taken && first == "" {
			first = why
		}
	}
	for _, nw := range t.Networks {
		for _, ps := range [][]model.Port{nw.ReservedPorts, nw.DynamicPorts} {
			for _, p := range ps {
				note(u.on(nw.IP).set(p.Value) && !p.IgnoreCollision, collision(p.Label, p.Value))
			}
		}
	}
	for _, c := range t.Cpu.ReservedCores {
		note(u.cores[c], "cores")
		u.cores[c] = true
	}
	for _, d := range t.Devices {
		for _, id := range d.DeviceIDs {
			key := deviceKey(d.Vendor, d.Type, d.Name, id)
			note(u.devices[key], "devices")
			u.devices[key] = true
		}
	}
	return first
}

func collision(label string, port int) string {
	return "network: reserved port collision " + label + "=" + strconv.Itoa(port)
}

// bitmap is the set of used ports of one address. The ports of a page are bits of words; a
// page of which no port is used is nil, because most nodes use few pages.
type bitmap [65536 / pagePorts]*[pagePorts / 64]uint64

const pagePorts = 1024

func (b *bitmap) has(p int) bool {
	if p < 0 || p > 65535 {
		return true
	}
	page := b[p/pagePorts]
	return page != nil && page[p%pagePorts/64]&(1<<(p&63)) != 0
}

// set adds p and reports whether it was already used.
func (b *bitmap) set(p int) bool {
	if p < 0 || p > 65535 {
		return true
	}
	was := b.has(p)
	if b[p/pagePorts] == nil {
		b[p/pagePorts] = new([pagePorts / 64]uint64)
	}
	b[p/pagePorts][p%pagePorts/64] |= 1 << (p & 63)
	return was
}

// parsePorts parses "22,80,8500-8600" and skips what is not a port.
func parsePorts(s string) []int {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(hi); err != nil {
				continue
			}
		}
		for p := max(a, 0); p <= min(b, 65535); p++ {
			out = append(out, p)
		}
	}
	return out
}

func hostNetwork(name string) string {
	if name == "" {
		return model.DefaultHostNetwork
	}
	return name
}

// Address returns the node's address on a host network.
func Address(n *model.Node, network string) (string, bool) {
	network = hostNetwork(network)
	if n.NodeResources == nil {
		return "", false
	}
	for _, nw := range n.NodeResources.NodeNetworks {
		for _, a := range nw.Addresses {
			if a.Alias == network {
				return a.Address, true
			}
		}
	}
	if network != model.DefaultHostNetwork {
		return "", false
	}
	for _, nw := range n.NodeResources.Networks {
		if nw.IP != "" {
			return nw.IP, true
		}
	}
	return "", false
}

// addresses returns every address of n whose ports can be used.
func addresses(n *model.Node) []string {
	set := map[string]bool{}
	if n.NodeResources != nil {
		for _, nw := range n.NodeResources.NodeNetworks {
			for _, a := range nw.Addresses {
				set[a.Address] = true
			}
		}
		for _, nw := range n.NodeResources.Networks {
			if nw.IP != "" {
				set[nw.IP] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}
