// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
)

// BridgePlugin is the name of the plugin whose config the keys of Bridge are.
const BridgePlugin = "network-bridge"

// Bridge describes the bridge of groups with a network of mode "bridge". The plugin that
// makes them has keys of the same names, and checks the values.
type Bridge struct {
	Name       string `json:"bridge_network_name,omitempty"`
	Subnet     string `json:"bridge_network_subnet,omitempty"`
	SubnetIPv6 string `json:"bridge_network_subnet_ipv6,omitempty"`
	Hairpin    *bool  `json:"bridge_network_hairpin_mode,omitempty"`
}

// set returns the keys that are set.
func (b Bridge) set() map[string]any {
	out := map[string]any{}
	for key, text := range map[string]string{"bridge_network_name": b.Name, "bridge_network_subnet": b.Subnet, "bridge_network_subnet_ipv6": b.SubnetIPv6} {
		if text != "" {
			out[key] = text
		}
	}
	if b.Hairpin != nil {
		out["bridge_network_hairpin_mode"] = *b.Hairpin
	}
	return out
}

// Under returns the config of the plugin with these keys where it does not have them: it is
// nearer to what they are about.
func (b Bridge) Under(config map[string]any) map[string]any {
	out := b.set()
	maps.Copy(out, config)
	if len(out) == 0 {
		return config
	}
	return out
}

// bridgeWarnings names the keys that the plugin's block sets otherwise.
func (c *Config) bridgeWarnings() (out []string) {
	set, block := c.Client.Bridge.set(), c.Plugins[BridgePlugin].Config
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if other, given := block[key]; given && fmt.Sprint(other) != fmt.Sprint(set[key]) {
			out = append(out, fmt.Sprintf("client.%s = %v has no effect: the block plugin %q sets it to %v", key, set[key], BridgePlugin, other))
		}
	}
	return out
}
