// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/containernetworking/cni/libcni"
)

// pool is a range of addresses that the program host-local gives to allocs of a network. It
// keeps one list of given addresses for each network, so two networks with the same addresses
// give them out twice.
type pool struct {
	network     string
	subnet      string
	first, last netip.Addr
	// master is the interface of the machine whose segment the network is in; "" if it is one
	// of the machine's own. The same addresses in two segments are nobody's mistake.
	master string
}

// poolConfig is what is read of the configuration of host-local.
type poolConfig struct {
	Subnet, RangeStart, RangeEnd string
}

// pools returns the ranges of a network. What is not valid is left out: the program says so
// itself when it is called.
func pools(list *libcni.NetworkConfigList) (out []pool) {
	var body struct {
		Plugins []struct {
			Master string
			IPAM   struct {
				poolConfig
				Type   string
				Ranges [][]poolConfig
			}
		}
	}
	if err := json.Unmarshal(list.Bytes, &body); err != nil {
		return nil
	}
	for _, p := range body.Plugins {
		if p.IPAM.Type != "host-local" {
			continue
		}
		all := []poolConfig{p.IPAM.poolConfig}
		for _, set := range p.IPAM.Ranges {
			all = append(all, set...)
		}
		for _, c := range all {
			if one, ok := c.pool(); ok {
				one.network, one.master = prefix+list.Name, p.Master
				out = append(out, one)
			}
		}
	}
	return out
}

func (c poolConfig) pool() (pool, bool) {
	subnet, err := netip.ParsePrefix(c.Subnet)
	if err != nil {
		return pool{}, false
	}
	out := pool{subnet: c.Subnet, first: subnet.Masked().Addr(), last: lastOf(subnet)}
	if a, err := netip.ParseAddr(c.RangeStart); err == nil {
		out.first = a
	}
	if a, err := netip.ParseAddr(c.RangeEnd); err == nil {
		out.last = a
	}
	return out, true
}

// lastOf returns the last address of a subnet.
func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(raw)
	return last
}

func (p pool) overlaps(other pool) bool {
	if p.network == other.network || p.master != other.master || p.first.Is4() != other.first.Is4() {
		return false
	}
	return p.first.Compare(other.last) <= 0 && other.first.Compare(p.last) <= 0
}

// overlap says with which network before it a network shares addresses; "" means none. It is
// offered nevertheless: only the operator knows whether it matters.
func overlap(of, before []pool) string {
	for _, a := range of {
		for _, b := range before {
			if a.overlaps(b) {
				return fmt.Sprintf("networks %s and %s both give out addresses of %s and %s, so two allocs may get the same one; give each a subnet, or a rangeStart and rangeEnd, of its own",
					b.network, a.network, b.subnet, a.subnet)
			}
		}
	}
	return ""
}
