// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// neighbour is an address of another interface of the machine, with its network.
type neighbour struct {
	link   string
	prefix netip.Prefix
}

// keyOf returns the key of the configuration that sets a subnet.
func keyOf(subnet netip.Prefix) string {
	if subnet.Addr().Is6() {
		return "bridge_network_subnet_ipv6"
	}
	return "bridge_network_subnet"
}

// inTheWay returns an error if another interface has an address in a subnet of the bridge. The
// machine would then send packets for one of the two networks to the other, and an alloc could
// get the address of that interface.
func (s settings) inTheWay(all []neighbour) error {
	for _, subnet := range s.subnets {
		for _, n := range all {
			if subnet.Contains(n.prefix.Addr()) {
				return errdefs.FailedPreconditionf("the subnet %s of the bridge %q overlaps with that of the interface %q, which has the address %s; choose another %s, or remove the interface if nothing needs it",
					subnet, s.name, n.link, n.prefix, keyOf(subnet))
			}
		}
	}
	return nil
}

// hides says which network of another interface contains a subnet of the bridge; "" means none.
// The machine cannot reach the part of that network that has addresses of the subnet.
func (s settings) hides(all []neighbour) string {
	for _, subnet := range s.subnets {
		for _, n := range all {
			if subnet.Overlaps(n.prefix) && !subnet.Contains(n.prefix.Addr()) {
				return fmt.Sprintf("the subnet %s of the bridge %q is a part of the network %s of the interface %q: this machine reaches nothing there that has an address of the subnet; choose another %s unless nothing has",
					subnet, s.name, n.prefix.Masked(), n.link, keyOf(subnet))
			}
		}
	}
	return ""
}

// fits refuses to make the network of a new alloc that could not be reached. The networks
// of other allocs are still repaired, because they may work well enough.
func (n *Network) fits(set settings, allocID string, ports []network.Port) error {
	if old, err := n.store.Get(allocID); err != nil || old != nil {
		return err
	}
	if err := set.mappable(ports); err != nil {
		return err
	}
	all, err := set.neighbours()
	if err != nil {
		return err
	}
	return set.inTheWay(all)
}

// mappable refuses a port on none of whose addresses of the machine anything can be forwarded
// to the bridge. Its service would be registered, and nobody could reach it.
func (s settings) mappable(ports []network.Port) error {
	leads, why := map[string]bool{}, map[string]error{}
	for _, p := range ports {
		err := s.forwards(p)
		leads[p.Label] = leads[p.Label] || err == nil
		why[p.Label] = err
	}
	for _, p := range ports {
		if !leads[p.Label] {
			return why[p.Label]
		}
	}
	return nil
}

// forwards says why nothing can be forwarded from a port's address; nil if something can.
func (s settings) forwards(p network.Port) error {
	ip, err := netip.ParseAddr(p.HostIP)
	if err != nil || ip.IsUnspecified() {
		return nil // all addresses
	}
	ip = ip.Unmap()
	switch {
	case ip.Is6() && ip.IsLoopback():
		return errdefs.FailedPreconditionf("port %q is on %s, from which the kernel forwards nothing; give the port another host_network", p.Label, ip)
	case !slices.ContainsFunc(s.subnets, func(own netip.Prefix) bool { return own.Addr().Is4() == ip.Is4() }):
		return errdefs.FailedPreconditionf("port %q is on %s, and the bridge %q has no IPv6 addresses; set bridge_network_subnet_ipv6, or give the port another host_network", p.Label, ip, s.name)
	}
	return nil
}

// overlap says what of the machine's networks overlaps with the bridge's, and whether the
// bridge is offered nevertheless: an alloc that has it must be able to have it repaired.
func (n *Network) overlap(ctx context.Context, set settings) (problem string, offered bool) {
	all, err := set.neighbours()
	if err != nil {
		return err.Error(), true
	}
	why := set.inTheWay(all)
	if why == nil {
		return set.hides(all), true
	}
	used := false
	err = n.store.shared(ctx, func(records map[string]*record) error {
		for _, r := range records {
			used = used || r.Network == bridged
		}
		return nil
	})
	return why.Error(), used || err != nil
}
