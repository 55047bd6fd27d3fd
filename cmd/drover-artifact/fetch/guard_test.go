// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"net/netip"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
)

// dialed is an address of a host to which a fetch wants to connect.
type dialed struct {
	host, ip string
	ok       bool
}

func TestTheGuardAllowsWhatTheSourceNamesAndNothingNearer(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		dials  []dialed
	}{
		"public": {"host.example", []dialed{
			{"host.example", "93.184.216.34", true}, {"other.example", "1.1.1.1", true}, {"other.example", "2606:4700::1", true},
			{"other.example", "127.0.0.1", false}, {"other.example", "10.1.2.3", false}, {"other.example", "192.168.0.1", false},
			{"other.example", "172.16.0.1", false}, {"other.example", "::1", false}, {"other.example", "fc00::1", false},
			{"other.example", "100.64.1.1", false}, {"other.example", "0.0.0.0", false}, {"other.example", "0.1.2.3", false},
			{"other.example", "169.254.169.254", false}, {"other.example", "fe80::1", false}, {"other.example", "fd00:ec2::254", false},
			{"other.example", "100.100.100.200", false}, {"other.example", "::ffff:10.0.0.1", false}, {"other.example", "64:ff9b::a00:1", false},
			{"other.example", "64:ff9b::5db8:d822", true}, {"other.example", "224.0.0.1", false},
		}},
		"public that turns private": {"host.example", []dialed{{"host.example", "93.184.216.34", true}, {"host.example", "127.0.0.1", false}, {"HOST.example", "10.0.0.1", false}}},
		"internal name":             {"artifacts.corp", []dialed{{"artifacts.corp", "10.0.0.5", true}, {"cdn.corp", "10.0.0.6", true}, {"cdn.corp", "169.254.169.254", false}, {"public.example", "1.1.1.1", true}}},
		"name of the link":          {"rebind.example", []dialed{{"rebind.example", "169.254.169.254", false}}},
		"address of the link":       {"169.254.169.254", []dialed{{"169.254.169.254", "169.254.169.254", true}, {"169.254.1.1", "169.254.1.1", false}}},
		"loopback":                  {"127.0.0.1", []dialed{{"127.0.0.1", "127.0.0.1", true}, {"localhost", "127.0.0.1", true}}},
		"localhost":                 {"localhost", []dialed{{"localhost", "::1", true}, {"localhost", "127.0.0.1", true}}},
		"nothing known yet":         {"host.example", []dialed{{"other.example", "10.0.0.1", false}}},
	} {
		g := newGuard(c.source)
		for _, d := range c.dials {
			err := g.allow(d.host, netip.MustParseAddr(d.ip))
			if (err == nil) != d.ok || err != nil && !errdefs.IsInvalidArgument(err) {
				t.Errorf("%s: source %s, %s at %s: got %v, want allowed %v", name, c.source, d.host, d.ip, err, d.ok)
			}
		}
	}
}

func TestProxiesOfTheEnvironmentAreKnownByTheirAddress(t *testing.T) {
	for text, want := range map[string]string{
		"http://proxy.corp:3128": "proxy.corp:3128", "Proxy.corp": "proxy.corp:80", "https://p": "p:443", "socks5://10.0.0.1": "10.0.0.1:1080", "": "", "http://": "",
	} {
		if got := proxyAddr(text); got != want {
			t.Errorf("proxyAddr(%q) is %q, want %q", text, got, want)
		}
	}
}
