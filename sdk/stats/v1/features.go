// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"slices"

	"github.com/drover-project/drover/sdk/internal/feature"
)

// Feature is the name of an optional ability: an interface that a collector may implement
// in addition to Collector. Service finds it by a type assertion and announces it to the
// host, which calls only what was announced. A type that wraps another one must therefore
// implement the same optional interfaces.
type Feature string

// FeatureTasks: the collector is a TaskCollector.
const FeatureTasks Feature = "tasks"

// abilities has a row for each optional interface. The host acts on each.
var abilities = []feature.Row[Collector, Feature]{
	{Feature: FeatureTasks, Has: feature.Implements[TaskCollector, Collector]},
}

// Features returns the optional abilities of a collector: what its Go type implements, or
// what its plugin announced if it runs in another process. The latter may be newer than
// this side and have features that it does not know.
func Features(d Collector) []Feature { return feature.Of(abilities, d) }

// Has reports whether a collector has an optional ability. Use it instead of a type assertion,
// which always succeeds for a collector in another process.
func Has(d Collector, f Feature) bool { return slices.Contains(Features(d), f) }

// KnownFeatures returns the features of this version of the contract. A host acts on all
// of them.
func KnownFeatures() []Feature { return feature.Names(abilities) }

// Announced returns what the plugin announced.
func (c *client) Announced() []Feature { return c.info.Features }
