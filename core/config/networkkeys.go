// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
)

// The names of the plugins to whose config the keys of Bridge and CNI belong.
const (
	bridgePlugin = "network-bridge"
	cniPlugin    = "network-cni"
)

// Bridge describes the bridge of groups with a network of mode "bridge". The plugin
// network-bridge has keys of the same names, and checks the values.
type Bridge struct {
	Name       string `json:"bridge_network_name,omitempty"`
	Subnet     string `json:"bridge_network_subnet,omitempty"`
	SubnetIPv6 string `json:"bridge_network_subnet_ipv6,omitempty"`
	Hairpin    *bool  `json:"bridge_network_hairpin_mode,omitempty"`
}

// CNI says where the programs and configurations of networks of mode "cni/NAME" are. The
// plugin network-cni has keys of the same names, and checks the values.
type CNI struct {
	Path      string `json:"cni_path,omitempty"`
	ConfigDir string `json:"cni_config_dir,omitempty"`
}

// networkKeys returns the keys that are set, by the plugin that they are about.
func (c *Client) networkKeys() map[string]map[string]any {
	out := map[string]map[string]any{}
	set := func(plugin, key string, value any, given bool) {
		if !given {
			return
		}
		if out[plugin] == nil {
			out[plugin] = map[string]any{}
		}
		out[plugin][key] = value
	}
	set(bridgePlugin, "bridge_network_name", c.Bridge.Name, c.Bridge.Name != "")
	set(bridgePlugin, "bridge_network_subnet", c.Bridge.Subnet, c.Bridge.Subnet != "")
	set(bridgePlugin, "bridge_network_subnet_ipv6", c.Bridge.SubnetIPv6, c.Bridge.SubnetIPv6 != "")
	if c.Bridge.Hairpin != nil {
		set(bridgePlugin, "bridge_network_hairpin_mode", *c.Bridge.Hairpin, true)
	}
	set(cniPlugin, "cni_path", c.CNI.Path, c.CNI.Path != "")
	set(cniPlugin, "cni_config_dir", c.CNI.ConfigDir, c.CNI.ConfigDir != "")
	return out
}

// AddNetworkKeys adds the keys about networks to the configs of the network plugins. A key
// that the plugin's own block sets takes precedence. It replaces configs in the map, but
// changes none of them.
func (c *Client) AddNetworkKeys(configs map[string]map[string]any) {
	for plugin, keys := range c.networkKeys() {
		maps.Copy(keys, configs[plugin])
		configs[plugin] = keys
	}
}

// networkWarnings names the keys that a plugin's block sets otherwise.
func (c *Config) networkWarnings() (out []string) {
	all := c.Client.networkKeys()
	for _, plugin := range slices.Sorted(maps.Keys(all)) {
		block := c.Plugins[plugin].Config
		for _, key := range slices.Sorted(maps.Keys(all[plugin])) {
			value := all[plugin][key]
			if other, given := block[key]; given && fmt.Sprint(other) != fmt.Sprint(value) {
				out = append(out, fmt.Sprintf("client.%s = %v has no effect: the block plugin %q sets it to %v", key, value, plugin, other))
			}
		}
	}
	return out
}
