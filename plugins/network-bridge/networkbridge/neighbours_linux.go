// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// neighbours returns the addresses of the machine's interfaces except for the bridge's own, of
// the families of the bridge. The names of interfaces are looked up only for what overlaps.
func (s settings) neighbours() (out []neighbour, err error) {
	own := -1
	if link, err := netlink.LinkByName(s.name); err == nil {
		own = link.Attrs().Index
	}
	for _, subnet := range s.subnets {
		family := netlink.FAMILY_V4
		if subnet.Addr().Is6() {
			family = netlink.FAMILY_V6
		}
		list, err := netlink.AddrList(nil, family)
		// While others change addresses the list may lack some, which are seen the next time.
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return nil, fmt.Errorf("list the addresses of the machine: %w", err)
		}
		for _, a := range list {
			addr, ok := netip.AddrFromSlice(a.IP)
			bits, _ := a.Mask.Size()
			p := netip.PrefixFrom(addr.Unmap(), bits)
			if ok && a.LinkIndex != own && p.IsValid() && p.Overlaps(subnet) {
				out = append(out, neighbour{linkName(a.LinkIndex), p})
			}
		}
	}
	return out, nil
}

func linkName(index int) string {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("number %d", index) // it has gone meanwhile
	}
	return link.Attrs().Name
}
