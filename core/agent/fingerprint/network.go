// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint

import (
	"net"

	"github.com/drover-project/drover/core/model"
)

// probeNetwork lists the addresses of the node's interface. Tasks receive the first
// IPv4 address, or the first IPv6 address of a machine that has no other.
func (f *Facts) probeNetwork(o Options) {
	ifi := chosen(o.Interface)
	if ifi == nil {
		if o.Interface != "" {
			f.problem("client.network_interface: this machine has no interface %q, so jobs that want ports are not placed here", o.Interface)
		}
		return
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return
	}
	f.addNetwork(ifi, addrs, orInt(o.NetworkSpeed, 1000))
}

func (f *Facts) addNetwork(ifi *net.Interface, addrs []net.Addr, speed int) {
	node := &model.NodeNetworkResource{Mode: "host", Device: ifi.Name, MacAddress: ifi.HardwareAddr.String(), Speed: speed}
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok || ipnet.IP.IsLinkLocalUnicast() {
			continue
		}
		ip, family, bits := ipnet.IP, "ipv6", "/128"
		if v4 := ip.To4(); v4 != nil {
			ip, family, bits = v4, "ipv4", "/32"
		}
		if family == "ipv4" && f.Attributes["unique.network.ip-address"] == "" {
			f.set("unique.network.ip-address", ip.String())
		}
		f.Resources.Networks = append(f.Resources.Networks, &model.NetworkResource{
			Mode: "host", Device: ifi.Name, CIDR: ip.String() + bits, IP: ip.String(), MBits: speed,
		})
		node.Addresses = append(node.Addresses, model.NodeNetworkAddress{Family: family, Alias: "default", Address: ip.String()})
	}
	if f.Attributes["unique.network.ip-address"] == "" && len(f.Resources.Networks) > 0 {
		f.set("unique.network.ip-address", f.Resources.Networks[0].IP)
	}
	f.Resources.NodeNetworks = append(f.Resources.NodeNetworks, node)
}

// chosen returns the named interface, or else the one of the default route, or else
// the first that is up and not loopback, or else loopback.
func chosen(name string) *net.Interface {
	if name != "" {
		ifi, err := net.InterfaceByName(name)
		if err != nil {
			return nil
		}
		return ifi
	}
	ifis, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var loopback, up *net.Interface
	outbound := outboundIP()
	for i := range ifis {
		ifi := &ifis[i]
		switch {
		case ifi.Flags&net.FlagUp == 0:
			continue
		case ifi.Flags&net.FlagLoopback != 0:
			if loopback == nil {
				loopback = ifi
			}
			continue
		case outbound != nil && has(ifi, outbound):
			return ifi
		case up == nil:
			up = ifi
		}
	}
	if up != nil {
		return up
	}
	return loopback
}

// outboundIP returns the address of the default route; it sends nothing.
func outboundIP() net.IP {
	for _, elsewhere := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		c, err := net.Dial("udp", elsewhere)
		if err != nil {
			continue // the machine has no address of that family
		}
		a, ok := c.LocalAddr().(*net.UDPAddr)
		_ = c.Close() // nothing was sent
		if ok {
			return a.IP
		}
	}
	return nil
}

func has(ifi *net.Interface, ip net.IP) bool {
	addrs, err := ifi.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
