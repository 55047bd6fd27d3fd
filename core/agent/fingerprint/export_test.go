// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint

import (
	"net"

	"github.com/drover-project/drover/core/model"
)

// Topology and PCINodeIn read the machine below another root.
var (
	Topology  = topology
	PCINodeIn = pciNode
)

// WithNetwork returns the facts of a machine whose interface has these addresses.
func WithNetwork(addrs ...net.Addr) *Facts {
	f := &Facts{Attributes: map[string]string{}, Resources: &model.NodeResources{}}
	f.addNetwork(&net.Interface{Name: "eth0"}, addrs, 1000)
	return f
}
