// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"slices"

	"github.com/drover-project/drover/sdk/internal/feature"
)

// Feature is the name of an optional ability: an interface that a registry may implement in
// addition to Registry. Service finds it by a type assertion and announces it to the host,
// which calls only what was announced.
type Feature string

// FeatureQuery: the registry is a Querier.
const FeatureQuery Feature = "query"

// FeatureLogin: the registry is an Authenticator.
const FeatureLogin Feature = "login"

// abilities has a row for each optional interface. The host acts on each.
var abilities = []feature.Row[Registry, Feature]{
	{Feature: FeatureQuery, Has: feature.Implements[Querier, Registry]},
	{Feature: FeatureLogin, Has: feature.Implements[Authenticator, Registry]},
}

// Features returns the optional abilities of a registry: what its Go type implements, or
// what its plugin announced if it runs in another process.
func Features(r Registry) []Feature { return feature.Of(abilities, r) }

// Has reports whether a registry has an optional ability. Use it instead of a type assertion,
// which always succeeds for a registry in another process.
func Has(r Registry, f Feature) bool { return slices.Contains(Features(r), f) }

// KnownFeatures returns the features of this version of the contract. A host acts on all
// of them.
func KnownFeatures() []Feature { return feature.Names(abilities) }

// Announced returns what the plugin announced.
func (c *client) Announced() []Feature { return c.info.Features }
