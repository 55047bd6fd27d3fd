// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/core/pluginhost/logpipe"
)

// LogCollectorCommand is the subcommand that runs CollectLogs. Agents start it;
// it is in no help.
const LogCollectorCommand = "log-collector"

// logCollectorIdle is how long a collector stays with nothing to collect.
const logCollectorIdle = time.Minute

// LogCollector is the command that an agent starts a collector with.
func LogCollector() []string {
	self, err := os.Executable()
	if err != nil {
		return nil // a start that needs it says that there is none
	}
	return []string{self, LogCollectorCommand}
}

// CollectLogs reads the logs of plugins built for Nomad until it has been idle.
// dir is where its socket goes. It outlives the agent that started it.
func CollectLogs(ctx context.Context, dir string) error {
	l, err := logpipe.Listen(filepath.Join(dir, logpipe.SocketName))
	if err != nil {
		return err
	}
	return logpipe.NewCollector(logCollectorIdle).Serve(ctx, l)
}
