// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// StateDirEnv names the variable by which the agent says where its plugins keep
// what outlives their process.
const StateDirEnv = "DROVER_PLUGIN_STATE_DIR"

// StateDir is the directory in which a plugin keeps what outlives its process, in
// a folder of its own name: the one that the agent says, else one of this user on
// this machine. It is of this boot only and need not exist yet.
func StateDir() string {
	if dir := os.Getenv(StateDirEnv); dir != "" {
		return dir
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		return "/run/drover"
	}
	return filepath.Join(os.TempDir(), "drover-"+strconv.Itoa(os.Geteuid()))
}
