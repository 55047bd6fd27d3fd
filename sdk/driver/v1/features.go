// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"slices"

	"github.com/drover-project/drover/sdk/internal/feature"
)

// Feature is the name of an optional ability: an interface that a driver may implement in
// addition to Driver. Service finds it by a type assertion and announces it to the host,
// which calls only what was announced. A type that wraps another one must therefore
// implement the same optional interfaces.
type Feature string

// The features.
const (
	// FeatureListTasks: the driver is a Lister. Plugins of the first release do not
	// announce it, so the host asks every driver.
	FeatureListTasks Feature = "list_tasks"
)

// abilities has a row for each optional interface. The host acts on each.
var abilities = []feature.Row[Driver, Feature]{
	{Feature: FeatureListTasks, Has: feature.Implements[Lister, Driver]},
	{Feature: FeatureProcessStats, Has: feature.Implements[ProcessMeter, Driver]},
	{Feature: FeatureValidateTask, Has: feature.Implements[Validator, Driver]},
	{Feature: FeatureUpdateResources, Has: feature.Implements[Updater, Driver]},
	{Feature: FeaturePause, Has: feature.Implements[Pauser, Driver]},
	{Feature: FeatureCheckpoint, Has: feature.Implements[Checkpointer, Driver]},
	{Feature: FeatureReadLogs, Has: feature.Implements[LogReader, Driver]},
	{Feature: FeatureNetworks, Has: feature.Implements[Networker, Driver]},
}

// Features returns the optional abilities of a driver: what its Go type implements, or what
// its plugin announced if it runs in another process. The latter may be newer than this
// side and have features that it does not know.
func Features(d Driver) []Feature { return feature.Of(abilities, d) }

// Has reports whether a driver has an optional ability. Use it instead of a type assertion,
// which always succeeds for a driver in another process.
func Has(d Driver, f Feature) bool { return slices.Contains(Features(d), f) }

// KnownFeatures returns the features of this version of the contract. A host tells plugins on
// which of them it acts: plugin.Host.
func KnownFeatures() []Feature { return feature.Names(abilities) }

// Announced returns what the plugin announced.
func (c *client) Announced() []Feature { return c.info.Features }
