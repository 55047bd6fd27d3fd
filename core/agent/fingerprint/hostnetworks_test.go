// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/model"
)

// onHostNetwork returns "DEVICE ADDRESS PORTS" of each address of a host network.
func onHostNetwork(f *fingerprint.Facts, name string) (out []string) {
	for _, n := range f.Resources.NodeNetworks {
		for _, a := range n.Addresses {
			if a.Alias == name {
				out = append(out, fmt.Sprint(n.Device, " ", a.Address, " ", a.ReservedPorts))
			}
		}
	}
	return out
}

func TestOverridesThatKeepTasksFromTheNodeAreNamed(t *testing.T) {
	f := fingerprint.Probe(t.Context(), fingerprint.Options{
		Interface: "no-such-interface", CPUTotalCompute: 1000, MemoryMB: 100, DiskTotalMB: 100, ReservableCores: []uint16{0, 60000, 60001},
		Reserved: &model.NodeReservedResources{
			Cpu: model.NodeReservedCpuResources{CpuShares: 1000, ReservedCpuCores: []uint16{0, 60002}}, Memory: model.NodeReservedMemoryResources{MemoryMB: 200}, Disk: model.NodeReservedDiskResources{DiskMB: 99},
		},
	})
	want := []string{
		"client.reservable_cores names cores that this machine does not have: 60000-60001",
		"client.reserved.cores names cores that this machine does not have: 60002",
		`client.network_interface: this machine has no interface "no-such-interface", so jobs that want ports are not placed here`,
		"client.reserved.cpu leaves nothing for allocs: 1000 of 1000 are reserved, so nothing is placed here",
		"client.reserved.memory leaves nothing for allocs: 200 of 100 are reserved, so nothing is placed here",
	}
	if !slices.Equal(f.Problems, want) {
		t.Errorf("got %q, want %q", f.Problems, want)
	}
}

func TestAHostNetworkHasTheAddressesOfItsBlockAndItsInterface(t *testing.T) {
	loopback := ""
	ifis, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifis {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			loopback = i.Name
		}
	}
	if loopback == "" {
		t.Skip("no loopback interface")
	}
	f := fingerprint.Probe(t.Context(), fingerprint.Options{HostNetworks: map[string]*model.HostNetworkConfig{
		"block": {CIDR: "127.0.0.1/8", ReservedPorts: "22"}, "interface": {Interface: loopback}, "both": {CIDR: "127.0.0.0/8", Interface: loopback},
		"nowhere": {CIDR: "192.0.2.1/32"}, "none": {Interface: "no-such-interface"}, "neither": {CIDR: "192.0.2.1/32", Interface: loopback},
	}})
	for name, want := range map[string]string{"block": loopback + " 127.0.0.1 22", "interface": loopback + " 127.0.0.1 ", "both": loopback + " 127.0.0.1 "} {
		if got := onHostNetwork(f, name); len(got) == 0 || got[0] != want {
			t.Errorf("%s: %q, want %q first", name, got, want)
		}
	}
	said := strings.Join(f.Problems, "\n")
	for _, name := range []string{"neither", "none", "nowhere"} {
		if want := fmt.Sprintf("client.host_network %q: no address of this machine belongs to it", name); len(f.Problems) != 3 || !strings.Contains(said, want) {
			t.Errorf("the problems are %q, want one that says %s", f.Problems, want)
		}
	}
	devices := map[string]bool{}
	for _, n := range f.Resources.NodeNetworks {
		if devices[n.Device] {
			t.Errorf("%s is there twice", n.Device)
		}
		devices[n.Device] = true
	}
}

func TestAHostNetworkOfTheDefaultsNameReplacesIt(t *testing.T) {
	f := fingerprint.Probe(t.Context(), fingerprint.Options{HostNetworks: map[string]*model.HostNetworkConfig{"default": {CIDR: "127.0.0.0/8"}}})
	for _, a := range onHostNetwork(f, "default") {
		if a != "lo 127.0.0.1 " && a != "lo0 127.0.0.1 " {
			t.Errorf("the default network has %s, too", a)
		}
	}
	f = fingerprint.Probe(t.Context(), fingerprint.Options{HostNetworks: map[string]*model.HostNetworkConfig{"default": {CIDR: "192.0.2.1/32"}}})
	if len(onHostNetwork(f, "default")) == 0 {
		t.Error("a network without addresses took those of the default away")
	}
}

func TestAMachineWithoutIPv4IsReachedByIPv6(t *testing.T) {
	of := func(text string) net.Addr {
		ip, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	six, link, four := of("2001:db8::7/64"), of("fe80::1/64"), of("192.0.2.7/24")
	for want, addrs := range map[string][]net.Addr{"2001:db8::7": {link, six}, "192.0.2.7": {six, four}, "": {link}} {
		if got := fingerprint.WithNetwork(addrs...).Attributes["unique.network.ip-address"]; got != want {
			t.Errorf("the address of a machine with %v is %q, want %q", addrs, got, want)
		}
	}
}
