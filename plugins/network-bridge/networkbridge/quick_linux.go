// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// All changes of the machine's networks, and most questions to netlink, take turns at one lock of
// the kernel (RTNL). While many networks are made at once nearly all of their time is spent
// waiting for it, so what is asked here is asked where the kernel needs no such lock.

// look asks about an interface of the machine by an ioctl. NotFound: there is none of the name.
func look(request uint, name string) (*unix.Ifreq, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("ask about the interface %s: %w", name, err)
	}
	defer unix.Close(fd)
	out, err := unix.NewIfreq(name)
	if err == nil {
		err = unix.IoctlIfreq(fd, request, out)
	}
	if errors.Is(err, unix.ENODEV) {
		return nil, errdefs.NotFoundf("there is no interface %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("ask about the interface %s: %w", name, err)
	}
	return out, nil
}

// indexOf returns the index of an interface of the machine; 0 if there is none.
func indexOf(name string) (int, error) {
	r, err := look(unix.SIOCGIFINDEX, name)
	if errdefs.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int(r.Uint32()), nil
}

// sound returns the bridge if this process has seen to it before, and nothing is missing since;
// nil otherwise.
func (s settings) sound() netlink.Link {
	index, err := indexOf(s.name)
	if _, seen := s.fixed.Load(index); err != nil || !seen {
		return nil
	}
	if flags, err := look(unix.SIOCGIFFLAGS, s.name); err != nil || flags.Uint16()&unix.IFF_UP == 0 {
		return nil
	}
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: s.name, Index: index}}
	for _, subnet := range s.subnets {
		family := netlink.FAMILY_V4
		if subnet.Addr().Is6() {
			family = netlink.FAMILY_V6
		}
		own := netip.PrefixFrom(subnet.Addr().Next(), subnet.Bits())
		has, err := netlink.AddrList(link, family)
		if err != nil || !slices.ContainsFunc(has, func(a netlink.Addr) bool { return a.IPNet != nil && a.IPNet.String() == prefix(own).String() }) {
			return nil
		}
	}
	return link
}

// fresh makes the link of an alloc that has none, the outer end up and at the bridge, in one
// message, and returns the inner end. It returns EEXIST if there is one of the names already.
func (s settings) fresh(rec *record, br netlink.Link, ns netns.NsHandle) (netlink.Link, error) {
	name := outsideName(rec.AllocID)
	r := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	head := nl.NewIfInfomsg(unix.AF_UNSPEC)
	head.Flags, head.Change = unix.IFF_UP, unix.IFF_UP
	r.AddData(head)
	r.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	r.AddData(nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(br.Attrs().Index))))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC) // which cannot be up before it has its other end
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(insideName))
	if hw := rec.hardwareAddress(); hw != nil {
		peer.AddRtAttr(unix.IFLA_ADDRESS, hw)
	}
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(ns)))
	r.AddData(info)
	if _, err := r.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return nil, errdefs.FailedPreconditionf("make the link %s of alloc %s: %w", name, rec.AllocID, err)
	}
	outside, err := netlink.LinkByName(name) // which knows the index of the other end
	if err != nil {
		return nil, fmt.Errorf("find the link that was just made: %w", err)
	}
	if s.hairpin {
		if err := netlink.LinkSetHairpin(outside, true); err != nil {
			return nil, fmt.Errorf("set the hairpin mode of the link %s: %w", name, err)
		}
	}
	return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: insideName, Index: outside.Attrs().ParentIndex}}, nil
}
