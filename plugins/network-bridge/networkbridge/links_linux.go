// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/errdefs"
)

// outsideName is the name of the machine's end of an alloc's link.
func outsideName(allocID string) string {
	sum := sha256.Sum256([]byte(allocID))
	return "drv" + hex.EncodeToString(sum[:6])
}

func missing(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none)
}

func prefix(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// bridge returns the bridge, which it makes if it is missing and repairs.
func (s settings) bridge() (netlink.Link, error) {
	if link := s.sound(); link != nil {
		return link, s.forwarding()
	}
	link, err := netlink.LinkByName(s.name)
	if missing(err) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr = s.name, hardwareAddress()
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err == nil || errors.Is(err, unix.EEXIST) {
			link, err = netlink.LinkByName(s.name)
		}
	}
	if err != nil {
		return nil, errdefs.FailedPreconditionf("make the bridge %q: %w", s.name, err)
	}
	if link.Type() != "bridge" {
		return nil, errdefs.FailedPreconditionf("the machine has an interface %q that is no bridge; choose another bridge_network_name", s.name)
	}
	if err := s.steady(link); err != nil {
		return nil, err
	}
	for _, subnet := range s.subnets {
		own := netip.PrefixFrom(subnet.Addr().Next(), subnet.Bits())
		if err := netlink.AddrReplace(link, address(own)); err != nil {
			return nil, errdefs.FailedPreconditionf("give the bridge %q the address %s: %w", s.name, own, err)
		}
	}
	if link.Attrs().Flags&net.FlagUp != 0 {
		return link, s.forwarding()
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, errdefs.FailedPreconditionf("bring the bridge %q up: %w", s.name, err)
	}
	return link, s.forwarding()
}

// steady fixes the hardware address of a bridge, once in the life of the process. A bridge whose
// address nobody has set takes the lowest of its ports', so that it changes as allocs come and
// end, and all others reach nothing until they have asked anew who the gateway is.
func (s settings) steady(link netlink.Link) error {
	index := link.Attrs().Index
	if _, done := s.fixed.Load(index); done {
		return nil
	}
	now := link.Attrs().HardwareAddr
	if !slices.ContainsFunc(now, func(b byte) bool { return b != 0 }) { // a bridge without ports has none yet
		now = hardwareAddress()
	}
	if err := netlink.LinkSetHardwareAddr(link, now); err != nil {
		return errdefs.FailedPreconditionf("fix the hardware address of the bridge %q: %w", s.name, err)
	}
	s.fixed.Store(index, true)
	return nil
}

// hardwareAddress returns a random one that belongs to no maker of hardware and to no group.
func hardwareAddress() net.HardwareAddr {
	a := make(net.HardwareAddr, 6)
	_, _ = rand.Read(a) // never fails
	a[0] = a[0]&^1 | 2
	return a
}

func address(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{IPNet: prefix(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // the plugin gives each address to one alloc, which can use it at once
	}
	return a
}

// forwarding lets packets pass between the bridge and the machine's other interfaces,
// and those from the machine's loopback reach allocs.
func (s settings) forwarding() error {
	keys := []string{"ipv4/ip_forward", "ipv4/conf/" + s.name + "/route_localnet"}
	if slices.ContainsFunc(s.subnets, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		keys = append(keys, forwardingSix)
	}
	for _, key := range keys {
		path := filepath.Join("/proc/sys/net", key)
		if is(path, "1") {
			continue
		}
		if key == forwardingSix {
			if err := acceptRoutes(); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return errdefs.FailedPreconditionf("set net/%s to 1: %w", key, err)
		}
	}
	return nil
}

const forwardingSix = "ipv6/conf/all/forwarding"

// acceptRoutes lets the machine go on learning its own IPv6 routes from routers. The kernel takes
// a machine that forwards for a router, which does not listen to others (value 1) unless it is
// told to (value 2): the machine would lose its default route some minutes later.
func acceptRoutes() error {
	all, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	if err != nil {
		return fmt.Errorf("list the interfaces that learn routes: %w", err)
	}
	for _, path := range all {
		if !is(path, "1") {
			continue
		}
		if err := os.WriteFile(path, []byte("2"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errdefs.FailedPreconditionf("set %s to 2, so that the machine keeps its IPv6 routes: %w", path, err)
		}
	}
	return nil
}

// is reports whether a setting of the kernel has a value.
func is(path, value string) bool {
	now, err := os.ReadFile(path)
	return err == nil && strings.TrimSpace(string(now)) == value
}

// attach connects the namespace of a record with the bridge. A link whose other end is
// not in the namespace, because that was made anew, is replaced.
func (s settings) attach(rec *record) error {
	br, err := s.bridge()
	if err != nil {
		return err
	}
	ns, in, err := netspace.Within(rec.path())
	if err != nil {
		return err
	}
	defer ns.Close()
	defer in.Close()
	name := outsideName(rec.AllocID)
	if index, err := indexOf(name); err == nil && index == 0 {
		inside, err := s.fresh(rec, br, ns)
		if err == nil {
			return s.address(rec, in, inside)
		}
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	inside, err := in.LinkByName(insideName)
	if err != nil && !missing(err) {
		return fmt.Errorf("look for the interface of the namespace: %w", err)
	}
	outside, oerr := netlink.LinkByName(name)
	if oerr != nil && !missing(oerr) {
		return fmt.Errorf("look for the link %s: %w", name, oerr)
	}
	if oerr != nil || err != nil || outside.Attrs().ParentIndex != inside.Attrs().Index {
		if err == nil && inside.Type() == "veth" { // its other end is gone
			if err := deleted(in.LinkDel(inside)); err != nil {
				return fmt.Errorf("remove the interface of the namespace: %w", err)
			}
		}
		if outside, inside, err = s.link(rec, br, ns, in); err != nil {
			return err
		}
	}
	if err := s.bringUp(br, outside); err != nil {
		return err
	}
	return s.address(rec, in, inside)
}

// address gives the inner end of a link what the record says.
func (s settings) address(rec *record, in *netlink.Handle, inside netlink.Link) error {
	if rec.Path != "" && slices.ContainsFunc(rec.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		if err := netspace.AllowIPv6(rec.Path, "lo", insideName); err != nil {
			return err
		}
	}
	return configure(in, inside, rec.Addresses)
}

// link makes the link between the bridge and the namespace of a record.
func (s settings) link(rec *record, br netlink.Link, ns netns.NsHandle, in *netlink.Handle) (outside, inside netlink.Link, err error) {
	if err := detach(rec); err != nil {
		return nil, nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex, attrs.Flags = outsideName(rec.AllocID), br.Attrs().Index, net.FlagUp
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: insideName, PeerHardwareAddr: rec.hardwareAddress(), PeerNamespace: netlink.NsFd(ns)}); err != nil {
		return nil, nil, errdefs.FailedPreconditionf("make the link %s of alloc %s: %w", attrs.Name, rec.AllocID, err)
	}
	if outside, err = netlink.LinkByName(attrs.Name); err == nil {
		inside, err = in.LinkByName(insideName)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find the link that was just made: %w", err)
	}
	return outside, inside, nil
}

// bringUp brings the machine's end of a link up.
func (s settings) bringUp(br, outside netlink.Link) error {
	if outside.Attrs().MasterIndex != br.Attrs().Index {
		if err := netlink.LinkSetMaster(outside, br); err != nil {
			return fmt.Errorf("add the link %s to the bridge: %w", outside.Attrs().Name, err)
		}
	}
	if err := netlink.LinkSetHairpin(outside, s.hairpin); err != nil {
		return fmt.Errorf("set the hairpin mode of the link %s: %w", outside.Attrs().Name, err)
	}
	if outside.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	if err := netlink.LinkSetUp(outside); err != nil {
		return fmt.Errorf("bring the link %s up: %w", outside.Attrs().Name, err)
	}
	return nil
}

// hardwareAddress returns the hardware address of the interface of an alloc; nil if the alloc
// has no IPv4 address. It is derived from the IPv4 address: so the neighbor entries that others
// have for the last alloc with this address stay valid for the new one.
func (r *record) hardwareAddress() net.HardwareAddr {
	for _, p := range r.Addresses {
		if a := p.Addr(); a.Is4() {
			ip := a.As4()
			return append(net.HardwareAddr{0x02, 0xd2}, ip[:]...) // of no maker of hardware
		}
	}
	return nil
}

// configure gives the interface of a namespace its addresses and routes.
func configure(in *netlink.Handle, inside netlink.Link, addresses []netip.Prefix) error {
	for _, p := range addresses {
		if err := in.AddrReplace(inside, address(p)); err != nil {
			return fmt.Errorf("give the interface the address %s: %w", p, err)
		}
	}
	if inside.Attrs().Flags&net.FlagUp == 0 {
		if err := in.LinkSetUp(inside); err != nil {
			return fmt.Errorf("bring the interface of the namespace up: %w", err)
		}
	}
	for _, p := range addresses {
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if p.Addr().Is6() {
			all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		route := &netlink.Route{LinkIndex: inside.Attrs().Index, Dst: prefix(all), Gw: p.Masked().Addr().Next().AsSlice()}
		if err := in.RouteReplace(route); err != nil {
			return fmt.Errorf("add the route of the address %s: %w", p, err)
		}
	}
	return nil
}

// detach removes the link of an alloc, with both ends. The kernel takes some 30 ms for it.
func detach(rec *record) error {
	name := outsideName(rec.AllocID)
	link, err := netlink.LinkByName(name)
	if missing(err) {
		return nil
	}
	if err == nil {
		err = deleted(netlink.LinkDel(link))
	}
	if err != nil {
		return fmt.Errorf("remove the link %s of alloc %s: %w", name, rec.AllocID, err)
	}
	return nil
}

// deleted returns the error of a deletion, but nil if there was nothing to delete.
func deleted(err error) error {
	if missing(err) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// remove removes the namespace of an alloc, and with it the link. The kernel removes a link
// together with its namespace, which takes a while, so remove only cuts the link off from the
// bridge and does not wait. If a process still uses the namespace, both stay until it ends.
func remove(rec *record) error {
	if rec.Path != "" || !cutOff(rec) {
		if err := detach(rec); err != nil {
			return err
		}
	}
	return netspace.Remove(rec.namespace)
}

// cutOff takes the machine's end of a link off the bridge, and reports whether the link ends
// with the plugin's namespace.
func cutOff(rec *record) bool {
	outside, err := netlink.LinkByName(outsideName(rec.AllocID))
	if err != nil {
		return missing(err)
	}
	return netspace.Is(rec.namespace) && netlink.LinkSetDown(outside) == nil && netlink.LinkSetNoMaster(outside) == nil
}

// inspect says what of the network of a record does not work.
func (s settings) inspect(rec *record) error {
	ns, in, err := netspace.Within(rec.path())
	if err != nil {
		return err
	}
	defer ns.Close()
	defer in.Close()
	inside, err := in.LinkByName(insideName)
	if err != nil {
		return errdefs.FailedPreconditionf("the interface %s of alloc %s: %w", insideName, rec.AllocID, err)
	}
	outside, err := netlink.LinkByName(outsideName(rec.AllocID))
	if err != nil || outside.Attrs().ParentIndex != inside.Attrs().Index {
		return errdefs.FailedPreconditionf("the link of alloc %s to the bridge is gone", rec.AllocID)
	}
	has, err := in.AddrList(inside, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list the addresses of alloc %s: %w", rec.AllocID, err)
	}
	for _, p := range rec.Addresses {
		if !slices.ContainsFunc(has, func(a netlink.Addr) bool { return a.IP.Equal(p.Addr().AsSlice()) }) {
			return errdefs.FailedPreconditionf("the interface of alloc %s has lost the address %s", rec.AllocID, p)
		}
	}
	return s.inspectRules(rec)
}

// forgetFlows makes the kernel decide anew about flows that are outdated. What it does not find
// is no error.
func forgetFlows(six bool, stale func(flow) bool) {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if family == unix.AF_INET6 && !six {
			continue
		}
		_, _ = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, flowFilter(stale))
	}
}

// flowFilter matches flows of the kernel.
type flowFilter func(flow) bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (stale flowFilter) MatchConntrackFlow(has *netlink.ConntrackFlow) bool {
	at := func(ip net.IP, port uint16) netip.AddrPort {
		a, _ := netip.AddrFromSlice(ip)
		return netip.AddrPortFrom(a.Unmap(), port)
	}
	f, r := has.Forward, has.Reverse
	return stale(flow{
		udp: f.Protocol == unix.IPPROTO_UDP, from: at(f.SrcIP, f.SrcPort), to: at(f.DstIP, f.DstPort),
		answer: at(r.SrcIP, r.SrcPort), back: at(r.DstIP, r.DstPort),
	})
}
