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

// LogCollectorCommand is the subcommand that runs CollectLogs. Agents start it; help
// does not list it.
const LogCollectorCommand = "log-collector"

// logCollectorIdle is the time after which a collector without work exits.
const logCollectorIdle = time.Minute

// LogCollector returns the command line that starts a log collector.
func LogCollector() []string {
	self, err := os.Executable()
	if err != nil {
		return nil // starting a plugin that needs a collector then fails with a message
	}
	return []string{self, LogCollectorCommand}
}

// CollectLogs reads the logs of plugins built for Nomad until it has been idle for a
// minute. Its socket is in dir. It keeps running when the agent that started it
// ends.
func CollectLogs(ctx context.Context, dir string) error {
	l, err := logpipe.Listen(filepath.Join(dir, logpipe.SocketName))
	if err != nil {
		return err
	}
	return logpipe.NewCollector(logCollectorIdle).Serve(ctx, l)
}
