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
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// Version is the plugin's version; a build may set it with -ldflags -X.
var Version = "0.1.0"

// StateDirEnv names the variable by which the agent says where the supervisor
// keeps its socket and journal. Both are of this boot only.
const StateDirEnv = "DROVER_PLUGIN_STATE_DIR"

// Main is the plugin's main: it serves the drivers, or is the supervisor.
func Main() error {
	supervisor.Main()
	dir := stateDir()
	return plugin.Serve(plugin.Info{Name: "driver-exec", Version: Version}, driver.Service(NewRawExec(dir), NewExec(dir), NewJava(dir)))
}

func stateDir() string {
	if dir := os.Getenv(StateDirEnv); dir != "" {
		return filepath.Join(dir, "driver-exec")
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		return "/run/drover/driver-exec"
	}
	return filepath.Join(os.TempDir(), "drover-"+strconv.Itoa(os.Geteuid()), "driver-exec")
}
