// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"reflect"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
)

// addDevices writes the devices that plugins found into the node.
func addDevices(n *model.Node, prints []pluginhost.DeviceFingerprint) {
	n.NodeResources.Devices = nil
	for _, p := range prints {
		n.NodeResources.Devices = append(n.NodeResources.Devices, pluginhost.DeviceGroups(p)...)
	}
}

func sameDevices(a, b *model.Node) bool {
	return reflect.DeepEqual(a.NodeResources.Devices, b.NodeResources.Devices)
}
