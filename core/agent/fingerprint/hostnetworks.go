// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/drover-project/drover/core/model"
)

// probeHostNetworks adds the addresses of the operator's host networks, under their names.
// IPv4 addresses come first, because ports get the first one.
func (f *Facts) probeHostNetworks(o Options) {
	ifis, err := net.Interfaces()
	if err != nil {
		ifis = nil
	}
	for _, name := range slices.Sorted(maps.Keys(o.HostNetworks)) {
		found := map[*net.Interface][]model.NodeNetworkAddress{}
		for i := range ifis {
			if addresses := addressesOf(&ifis[i], name, o.HostNetworks[name]); len(addresses) > 0 {
				found[&ifis[i]] = addresses
			}
		}
		switch {
		case len(found) == 0:
			f.problem("client.host_network %q: no address of this machine belongs to it, so jobs that want it are not placed here", name)
		case name == model.DefaultHostNetwork: // the operator's network replaces the interface's
			f.dropAddresses(name)
		}
		for i := range ifis {
			if addresses := found[&ifis[i]]; addresses != nil {
				node := f.deviceNetwork(&ifis[i], o)
				node.Addresses = append(node.Addresses, addresses...)
			}
		}
	}
}

// dropAddresses removes the addresses of a host network.
func (f *Facts) dropAddresses(name string) {
	for _, n := range f.Resources.NodeNetworks {
		n.Addresses = slices.DeleteFunc(n.Addresses, func(a model.NodeNetworkAddress) bool { return a.Alias == name })
	}
}

// deviceNetwork returns the entry of an interface, which it adds if there is none.
func (f *Facts) deviceNetwork(ifi *net.Interface, o Options) *model.NodeNetworkResource {
	for _, n := range f.Resources.NodeNetworks {
		if n.Device == ifi.Name {
			return n
		}
	}
	n := &model.NodeNetworkResource{Mode: "host", Device: ifi.Name, MacAddress: ifi.HardwareAddr.String(), Speed: orInt(o.NetworkSpeed, 1000)}
	f.Resources.NodeNetworks = append(f.Resources.NodeNetworks, n)
	return n
}

// addressesOf returns the addresses of an interface that belong to a host network.
func addressesOf(ifi *net.Interface, name string, h *model.HostNetworkConfig) (out []model.NodeNetworkAddress) {
	if ifi.Flags&net.FlagUp == 0 || h.Interface != "" && h.Interface != ifi.Name {
		return nil
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return nil
	}
	block, bad := netip.ParsePrefix(h.CIDR)
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLinkLocalUnicast() {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		ip = ip.Unmap()
		if !ok || h.CIDR != "" && (bad != nil || !block.Contains(ip)) {
			continue
		}
		family := "ipv6"
		if ip.Is4() {
			family = "ipv4"
		}
		out = append(out, model.NodeNetworkAddress{Family: family, Alias: name, Address: ip.String(), ReservedPorts: h.ReservedPorts})
	}
	slices.SortStableFunc(out, func(a, b model.NodeNetworkAddress) int { return cmp.Compare(a.Family, b.Family) })
	return out
}
