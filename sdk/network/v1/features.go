// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"github.com/drover-project/drover/sdk/internal/feature"
)

// Feature is the name of an optional ability: an interface that a network plugin may
// implement in addition to Network. Service finds it by a type assertion and announces it
// to the host, which calls only what was announced. This version has none.
type Feature string

// abilities has a row for each optional interface. The host acts on each.
var abilities []feature.Row[Network, Feature]

// Features returns the optional abilities of a network plugin: what its Go type implements,
// or what its plugin announced if it runs in another process.
func Features(n Network) []Feature { return feature.Of(abilities, n) }

// KnownFeatures returns the features of this version of the contract. A host acts on all
// of them.
func KnownFeatures() []Feature { return feature.Names(abilities) }

// Announced returns what the plugin announced.
func (c *client) Announced() []Feature { return c.info.Features }
