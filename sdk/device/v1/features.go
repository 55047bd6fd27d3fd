// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"slices"

	"github.com/drover-project/drover/sdk/internal/feature"
)

// Feature is the name of an optional ability: an interface that a device plugin may
// implement in addition to Device. Service finds it by a type assertion and announces it to
// the host, which calls only what was announced. A type that wraps another one must
// therefore implement the same optional interfaces.
type Feature string

// The features.
const (
	// FeatureReserveForTask: the plugin is a TaskReserver.
	FeatureReserveForTask Feature = "reserve_for_task"
	// FeatureRelease: the plugin is a Releaser.
	FeatureRelease Feature = "release"
)

// abilities has a row for each optional interface. The host acts on each.
var abilities = []feature.Row[Device, Feature]{
	{Feature: FeatureReserveForTask, Has: feature.Implements[TaskReserver, Device]},
	{Feature: FeatureRelease, Has: feature.Implements[Releaser, Device]},
}

// Features returns the optional abilities of a device plugin: what its Go type implements,
// or what its plugin announced if it runs in another process. The latter may be newer than
// this side and have features that it does not know.
func Features(d Device) []Feature { return feature.Of(abilities, d) }

// Has reports whether a device plugin has an optional ability. Use it instead of a type assertion,
// which always succeeds for a device plugin in another process.
func Has(d Device, f Feature) bool { return slices.Contains(Features(d), f) }

// KnownFeatures returns the features of this version of the contract. A host acts on all
// of them.
func KnownFeatures() []Feature { return feature.Names(abilities) }

// Announced returns what the plugin announced.
func (c *client) Announced() []Feature { return c.info.Features }
