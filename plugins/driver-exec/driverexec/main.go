// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driverexec is the plugin of the drivers that run processes of the
// machine itself: raw_exec, without any isolation, and exec, isolated. It owns what a task means to
// these drivers: config, users, look-up of commands, statistics, exec. The
// processes, their logs and their ends are plugins/internal/supervisor's, so that
// nothing here is lost when this process dies. Only plugins/driver-exec and
// cmd/drover-plugins import it.
package driverexec

import (
	"path/filepath"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// Version is the plugin's version; a build may set it with -ldflags -X.
var Version = "0.1.0"

// Main is the plugin's main: it serves the drivers, or is the supervisor.
func Main() error {
	supervisor.Main()
	dir := filepath.Join(plugin.StateDir(), "driver-exec")
	return plugin.Serve(plugin.Info{Name: "driver-exec", Version: Version}, driver.Service(NewRawExec(dir), NewExec(dir), NewJava(dir)))
}
