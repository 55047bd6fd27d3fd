// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
)

// addNetworks writes the networks that plugins offer into the node, before the machine's
// own. The network "none" is not one: it leads nowhere.
func addNetworks(n *model.Node, prints []pluginhost.NetworkFingerprint) {
	var offered []*model.NodeNetworkResource
	for _, p := range prints {
		for _, name := range p.Networks {
			if name != "none" {
				offered = append(offered, &model.NodeNetworkResource{Mode: name})
			}
		}
		for k, v := range p.Attributes {
			if _, taken := n.Attributes[k]; !taken && ofNetworks(k) {
				n.Attributes[k] = v
			}
		}
	}
	n.NodeResources.NodeNetworks = slices.Concat(offered, n.NodeResources.NodeNetworks)
}

// ofNetworks reports whether network plugins may set an attribute: the names are those
// that jobs of the reference compare with, and network.*.
func ofNetworks(name string) bool {
	return slices.ContainsFunc([]string{"nomad.bridge.", "plugins.cni.", "network."}, func(p string) bool { return strings.HasPrefix(name, p) })
}

func sameNetworks(a, b *model.Node) bool {
	return reflect.DeepEqual(a.NodeResources.NodeNetworks, b.NodeResources.NodeNetworks)
}
