// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint

// Topology and PCINodeIn read the machine below another root.
var (
	Topology  = topology
	PCINodeIn = pciNode
)
