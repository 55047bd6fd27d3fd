// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/sdk/errdefs"
)

// dnsOf returns the configuration of a dev agent with a block dns.
func dnsOf(t *testing.T, block string) (*config.Config, error) {
	t.Helper()
	c := config.DevDefaults()
	if err := c.Merge("a.hcl", []byte("dns {\n"+block+"\n}\n")); err != nil {
		t.Fatal(err)
	}
	return c, c.Finish()
}

func TestTheDefaultsOfTheDNSServer(t *testing.T) {
	c, err := dnsOf(t, `enabled = true`)
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.DNS.Names()
	if err != nil || n.Port != 53 || n.Domain != "service.drover" || !n.Tasks || n.TTL != 0 || n.Rate != 1000 || n.Addresses[0] != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("%+v, %v", n, err)
	}
	allowed := func(a string) bool {
		return slices.ContainsFunc(n.Allow, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(a)) })
	}
	if !allowed("127.0.0.1") || !allowed("172.26.64.5") || allowed("8.8.8.8") || allowed("2001:db8::1") {
		t.Errorf("allowed are %v", n.Allow)
	}
	if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "dns.recursors") }) {
		t.Errorf("nothing warns that tasks find no other names: %q", c.Warnings)
	}
	c, err = dnsOf(t, "enabled = true\nport = 8600\nrecursors = [\"192.0.2.1\", \"192.0.2.2:5353\", \"::1\", \"/etc/resolv.conf\"]")
	if err != nil {
		t.Fatal(err)
	}
	if n, err = c.DNS.Names(); err != nil || n.Tasks || !slices.Equal(n.Recursors, []string{"192.0.2.1:53", "192.0.2.2:5353", "[::1]:53", "/etc/resolv.conf"}) {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestADNSServerThatCannotWorkIsRefused(t *testing.T) {
	for block, want := range map[string]string{
		`addresses = ["eth0"]`:        "dns.addresses",
		`port = 70000`:                "dns.port 70000",
		`domain = "a..b"`:             "dns.domain",
		`domain = "-a"`:               "dns.domain",
		`ttl = "1ms"`:                 "dns.ttl",
		`ttl = "48h"`:                 "dns.ttl",
		`recursors = ["localhost"]`:   "dns.recursors",
		`recursors = ["192.0.2.1:0"]`: "dns.recursors",
		`allow = ["10.0.0.1"]`:        "dns.allow",
		`rate = -1`:                   "dns.rate",
		"port = 8600\ntasks = true":   "dns.tasks",
	} {
		if _, err := dnsOf(t, block); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", block, err, want)
		}
	}
	c := config.Defaults()
	c.DataDir = "/x"
	if err := c.Merge("a.hcl", []byte("server {\n enabled = true\n}\ndns {\n enabled = true\n}\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err == nil || !strings.Contains(err.Error(), "only a node answers") {
		t.Errorf("a server alone: %v", err)
	}
}
