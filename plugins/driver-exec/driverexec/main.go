// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driverexec is the plugin with the drivers that run processes on the
// machine: raw_exec, without isolation, and exec and java, isolated. It owns what a
// task's config means to these drivers: users, command lookup, statistics, exec. The
// supervisor (plugins/internal/supervisor) owns the processes, their logs and their
// exit codes, so that nothing is lost when this process dies. Only
// plugins/driver-exec and cmd/drover-plugins import it.
package driverexec

import (
	"path/filepath"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// Version is the plugin's version; a build may set it with -ldflags -X.
var Version = "0.1.0"

// Main runs the plugin: it serves the drivers or, if started as such, is the
// supervisor.
func Main() error {
	supervisor.Main()
	dir := filepath.Join(plugin.StateDir(), "driver-exec")
	return plugin.Serve(plugin.Info{Name: "driver-exec", Version: Version}, driver.Service(NewRawExec(dir), NewExec(dir), NewJava(dir)))
}
