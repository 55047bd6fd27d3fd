// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package device is the core's own view of a device plugin. It owns the
// interface that the host hands devices out through, and the adapters that bring
// each contract under it: v1.go for ours, nomad.go for the wire of plugins built
// for Nomad. It does not own processes (core/pluginhost does), and not who has
// which device: that is derived from the allocs. core/pluginhost imports it.
package device

import (
	v1 "github.com/drover-project/drover/sdk/device/v1"
)

// Backend is a device plugin in one process. The methods mean what those of
// sdk/device/v1 mean.
type Backend = v1.Device

// The values are those of the newest contract.
type (
	Info        = v1.Info
	Fingerprint = v1.Fingerprint
	Group       = v1.Group
	Instance    = v1.Instance
	Attribute   = v1.Attribute
	Reservation = v1.Reservation
	Mount       = v1.Mount
	Node        = v1.Node
	GroupStats  = v1.GroupStats
	Stats       = v1.Stats
	Value       = v1.Value
)
