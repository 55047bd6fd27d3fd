// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"github.com/drover-project/drover/plugins/internal/netrecords"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// record says what an alloc has, or is about to have.
type record struct {
	AllocID   string
	Network   string
	Path      string         `json:",omitempty"` // of a namespace that a driver made
	Hostname  string         `json:",omitempty"`
	Addresses []netip.Prefix `json:",omitempty"` // IPv4 first
	Ports     []network.Port `json:",omitempty"`
	DNS       *network.DNS   `json:",omitempty"`

	namespace string // the path of the plugin's namespace of the alloc
}

// path is the path of the namespace.
func (r *record) path() string { return cmp.Or(r.Path, r.namespace) }

// attachment is the record as the host sees it.
func (r *record) attachment() *network.Attachment {
	a := &network.Attachment{Path: r.path(), Interface: "lo", DNS: r.DNS, Ports: r.Ports}
	for _, p := range r.Addresses {
		a.Interface = insideName
		a.Addresses = append(a.Addresses, network.Address{Prefix: p.String(), Gateway: p.Masked().Addr().Next().String()})
	}
	return a
}

// insideName is the name of the interface in the namespace.
const insideName = "eth0"

// addresses returns those that the alloc has, where they are still in the subnets, and
// free ones else. The first of each subnet is the bridge's.
func (s settings) addresses(allocID string, all map[string]*record) (out []netip.Prefix, err error) {
	used := map[netip.Addr]bool{}
	var own []netip.Prefix
	for id, r := range all {
		if id == allocID {
			own = r.Addresses
			continue
		}
		for _, p := range r.Addresses {
			used[p.Addr()] = true
		}
	}
	for _, subnet := range s.subnets {
		keeps := slices.IndexFunc(own, func(p netip.Prefix) bool { return p.Masked() == subnet && !used[p.Addr()] })
		if keeps >= 0 {
			out = append(out, own[keeps])
			continue
		}
		addr := subnet.Addr().Next().Next()
		for used[addr] {
			addr = addr.Next()
		}
		// The last address of an IPv4 subnet is its broadcast address.
		if !subnet.Contains(addr) || addr.Is4() && !subnet.Contains(addr.Next()) {
			return nil, errdefs.ResourceExhaustedf("every address of the subnet %s is used by an alloc of this node; use a larger bridge_network_subnet", subnet)
		}
		out = append(out, netip.PrefixFrom(addr, subnet.Bits()))
	}
	return out, nil
}

func checkRequest(r network.Request) error {
	if err := netrecords.CheckID(r.AllocID); err != nil {
		return err
	}
	if len(r.Args) > 0 {
		return errdefs.InvalidArgumentf("network %q takes no arguments; remove cni { args } from the group's network, or use mode \"cni/NAME\"", r.Network)
	}
	if r.Network == isolated && len(r.Ports) > 0 {
		return errdefs.InvalidArgumentf("network %q has no ports; remove port %q", r.Network, r.Ports[0].Label)
	}
	return netrecords.CheckPorts(r.Ports)
}

// store keeps the records.
type store struct{ netrecords.Store[record] }

func newStore(dir string) *store {
	return &store{netrecords.Store[record]{
		Dir: dir, Owner: func(r *record) string { return r.AllocID },
		// Its addresses are unknown, and its links are found by the alloc's id.
		Damaged: func(id string) *record { return &record{AllocID: id, Network: bridged} },
	}}
}

// locked calls f while no other process uses the records: the rules are made of all of them.
func (s *store) locked(ctx context.Context, f func() error) error { return s.Locked(ctx, "lock", f) }

// all returns all records by alloc.
func (s *store) all() (map[string]*record, error) {
	all, err := s.All()
	for id, r := range all {
		r.namespace = s.Namespace(id)
	}
	return all, err
}
