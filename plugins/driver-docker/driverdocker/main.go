// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driverdocker is the driver docker, which runs tasks as containers of a Docker daemon.
// It owns the translation of a task's config for Docker, the images and their removal, and the
// watching of containers: their ends, logs and statistics, and the removal of what they leave
// behind. The daemon owns the containers, so nothing is lost when the driver's process dies.
// Only plugins/driver-docker and cmd/drover-plugins import it.
package driverdocker

import (
	"path/filepath"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// Version is the plugin's version.
var Version = "0.1.0"

// Main is the plugin's main.
func Main() error {
	d, err := New(filepath.Join(plugin.StateDir(), "driver-docker"), plugin.Logger("driver-docker"))
	if err != nil {
		return err
	}
	return plugin.Serve(plugin.Info{Name: "driver-docker", Version: Version}, driver.Service(d))
}
