// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package consulplugin is the registry consul: it registers the services of a node with the
// Consul agents of one or more clusters, and reads keys and services from them. It owns the
// comparison of what is wanted with what an agent has. It keeps no state of its own.
package consulplugin

import (
	"github.com/drover-project/drover/sdk/plugin"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// Version is the version of the plugin.
const Version = "1.0.0"

// Main serves the registry until the host ends it.
func Main() error {
	return plugin.Serve(plugin.Info{Name: "consul", Version: Version}, registry.Service(New()))
}
