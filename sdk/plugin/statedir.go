// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// StateDirEnv is the environment variable in which the agent passes the directory for
// state that outlives plugin processes.
const StateDirEnv = "DROVER_PLUGIN_STATE_DIR"

// StateDir returns the directory for state that outlives plugin processes; a plugin
// uses a folder with its own name in it. It is the directory that the agent passes, or
// else one per user of this machine. Its contents are valid only until the next
// reboot, and it may not exist yet.
func StateDir() string {
	if dir := os.Getenv(StateDirEnv); dir != "" {
		return dir
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		return "/run/drover"
	}
	return filepath.Join(os.TempDir(), "drover-"+strconv.Itoa(os.Geteuid()))
}
