// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/logpipe"
)

// fifos are the logs of foreign drivers: a FIFO for each output, which the
// collector reads.
type fifos struct{ client *logpipe.Client }

func logCommand(command []string, dir string) []string {
	if len(command) == 0 {
		return nil
	}
	return append(slices.Clone(command), dir)
}

// fifo is where the FIFO of a log file lies: hidden beside it.
func fifo(base string) string {
	return filepath.Join(filepath.Dir(base), "."+filepath.Base(base)+".fifo")
}

func (f *fifos) Attach(ctx context.Context, logs driver.LogConfig) (stdout, stderr string, err error) {
	pipes := make([]logpipe.Pipe, 0, 2)
	for _, base := range []string{logs.StdoutPath, logs.StderrPath} {
		pipes = append(pipes, logpipe.Pipe{Path: fifo(base), Base: base, MaxFiles: logs.MaxFiles, MaxFileSizeMB: logs.MaxFileSizeMB})
	}
	return pipes[0].Path, pipes[1].Path, f.client.Attach(ctx, pipes...)
}

func (f *fifos) Detach(ctx context.Context, logs driver.LogConfig) error {
	return f.client.Detach(ctx, fifo(logs.StdoutPath), fifo(logs.StderrPath))
}
