// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driverdocker is the driver docker: tasks as containers of a Docker
// daemon. It owns what a task's config means to Docker, images and their removal,
// the following of containers, their logs, statistics and what is left of them.
// It owns no container: those are the daemon's, so that nothing is lost when this
// process dies. Only plugins/driver-docker and cmd/drover-plugins import it.
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
