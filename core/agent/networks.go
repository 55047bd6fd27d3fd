// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// addNetworks writes the networks that plugins offer into the node, before the machine's
// own.
func addNetworks(n *model.Node, prints []pluginhost.NetworkFingerprint) {
	var offered []*model.NodeNetworkResource
	for _, p := range prints {
		for _, name := range p.Networks {
			offered = append(offered, &model.NodeNetworkResource{Mode: name})
		}
		for k, v := range p.Attributes {
			if _, taken := n.Attributes[k]; !taken && ofNetworks(k) {
				n.Attributes[k] = v
			}
		}
	}
	n.NodeResources.NodeNetworks = slices.Concat(offered, n.NodeResources.NodeNetworks)
}

// networkModes returns the network modes that a driver supports. A driver that makes the
// namespaces of groups itself can also join them.
func networkModes(p pluginhost.DriverFingerprint) (out []string) {
	for _, m := range p.Capabilities.NetworkModes {
		out = append(out, string(m))
	}
	if slices.Contains(p.Features, driver.FeatureNetworks) && !slices.Contains(out, string(driver.NetworkGroup)) {
		out = append(out, string(driver.NetworkGroup))
	}
	return out
}

// ofNetworks reports whether network plugins may set an attribute: it may be one that
// constraints in jobs of the reference name, or network.*.
func ofNetworks(name string) bool {
	return slices.ContainsFunc([]string{"nomad.bridge.", "plugins.cni.", "network."}, func(p string) bool { return strings.HasPrefix(name, p) })
}

func sameNetworks(a, b *model.Node) bool {
	return reflect.DeepEqual(a.NodeResources.NodeNetworks, b.NodeResources.NodeNetworks)
}
