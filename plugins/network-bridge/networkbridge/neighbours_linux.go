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
	own, err := indexOf(s.name)
	if err != nil {
		return nil, err
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
			if !ok || !p.IsValid() || !p.Overlaps(subnet) || a.LinkIndex == own {
				continue
			}
			// The bridge may be made by another call meanwhile, so it is known by its name.
			if link, err := netlink.LinkByIndex(a.LinkIndex); err == nil && link.Attrs().Name != s.name {
				out = append(out, neighbour{link.Attrs().Name, p})
			}
		}
	}
	return out, nil
}
