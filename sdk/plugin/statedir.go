// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// StateDirEnv is the environment variable in which the agent passes the directory for
// state that outlives plugin processes.
const StateDirEnv = "DROVER_PLUGIN_STATE_DIR"

// AgentDirsEnv is the environment variable in which the agent names its own directories,
// one per line: its data, and the data of all tasks.
const AgentDirsEnv = "DROVER_AGENT_DIRS"

// AgentDirs returns the agent's own directories. A driver that shows parts of the machine
// to tasks must hide them, because they contain keys and the secrets of other tasks.
// Under an agent of an older version the list is empty.
func AgentDirs() []string {
	return strings.FieldsFunc(os.Getenv(AgentDirsEnv), func(r rune) bool { return r == '\n' })
}

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
