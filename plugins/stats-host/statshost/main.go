// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package statshost is the collector of the machine that a node runs on: its
// processors, memory, swap, file systems, disks, network interfaces, sensors, load
// and uptime. It owns what of all that the system lists is worth telling, and that
// a file system which does not answer holds nothing up. It keeps nothing between
// samples, and knows no task. Only plugins/stats-host and cmd/drover-plugins
// import it.
package statshost

import (
	"github.com/drover-project/drover/sdk/plugin"
	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// Version is the plugin's version.
const Version = "0.1.0"

// Main is the plugin's main.
func Main() error {
	return plugin.Serve(plugin.Info{Name: "stats-host", Version: Version}, stats.Service(New()))
}
