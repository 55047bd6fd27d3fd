// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestTheKeysOfNetworksAreThoseOfTheirPluginsWhoseBlocksOverrideThem(t *testing.T) {
	c := config.DevDefaults()
	if err := c.Merge("x.hcl", []byte(`
client {
  bridge_network_name         = "br1"
  bridge_network_subnet       = "10.1.0.0/16"
  bridge_network_hairpin_mode = false
  cni_path                    = "/usr/lib/cni"
}
plugin "network-bridge" {
  config {
    bridge_network_name         = "br1"
    bridge_network_subnet       = "10.2.0.0/16"
    bridge_network_subnet_ipv6  = "fd00::/64"
  }
}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{
		"network-bridge": {"bridge_network_name": "br1", "bridge_network_subnet": "10.2.0.0/16", "bridge_network_subnet_ipv6": "fd00::/64", "bridge_network_hairpin_mode": false},
		"network-cni":    {"cni_path": "/usr/lib/cni"},
	}
	got := map[string]map[string]any{"network-bridge": c.Plugins["network-bridge"].Config}
	if c.Client.AddNetworkKeys(got); !reflect.DeepEqual(got, want) {
		t.Errorf("the plugins get %v, not %v", got, want)
	}
	warned := []string{`client.bridge_network_subnet = 10.1.0.0/16 has no effect: the block plugin "network-bridge" sets it to 10.2.0.0/16`}
	if !slices.Equal(c.Warnings, warned) {
		t.Errorf("warnings: %q", c.Warnings)
	}
	none := map[string]map[string]any{}
	defaults := config.Defaults()
	if defaults.Client.AddNetworkKeys(none); len(none) != 0 {
		t.Errorf("without keys the plugins get %v", none)
	}
}
