// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package statshost is the collector for the machine on which a node runs: CPUs,
// memory, swap, file systems, disks, network interfaces, sensors, load and uptime.
// It selects what is worth reporting, and ensures that a file system that hangs does
// not delay the rest. It keeps no samples and does not know tasks. Only
// plugins/stats-host and cmd/drover-plugins import it.
package statshost

import (
	"github.com/drover-project/drover/sdk/plugin"
	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// Version is the plugin's version.
const Version = "0.1.0"

// Main runs the plugin.
func Main() error {
	return plugin.Serve(plugin.Info{Name: "stats-host", Version: Version}, stats.Service(New()))
}
