// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestTheKeysOfTheBridgeAreThoseOfItsPluginWhichItsBlockOverrides(t *testing.T) {
	c := config.DevDefaults()
	if err := c.Merge("x.hcl", []byte(`
client {
  bridge_network_name         = "br1"
  bridge_network_subnet       = "10.1.0.0/16"
  bridge_network_hairpin_mode = false
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
	want := map[string]any{
		"bridge_network_name": "br1", "bridge_network_subnet": "10.2.0.0/16", "bridge_network_subnet_ipv6": "fd00::/64", "bridge_network_hairpin_mode": false,
	}
	if got := c.Client.Bridge.Under(c.Plugins[config.BridgePlugin].Config); !reflect.DeepEqual(got, want) {
		t.Errorf("the plugin gets %v, not %v", got, want)
	}
	warned := []string{`client.bridge_network_subnet = 10.1.0.0/16 has no effect: the block plugin "network-bridge" sets it to 10.2.0.0/16`}
	if !slices.Equal(c.Warnings, warned) {
		t.Errorf("warnings: %q", c.Warnings)
	}
	if got := config.Defaults().Client.Bridge.Under(nil); got != nil {
		t.Errorf("without keys the plugin gets %v", got)
	}
}
