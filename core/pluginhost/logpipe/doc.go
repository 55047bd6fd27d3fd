// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package logpipe stores the output of tasks whose plugins write it into FIFOs, as plugins
// built for Nomad do. One process per node, the collector, reads all FIFOs and writes rotated
// files. The agent does not do that itself, because a writer can die when its FIFO loses the
// reader, and agents are restarted. The package owns the collector, its socket and the FIFOs;
// sdk/tasklog owns the names of log files. core/pluginhost starts the collector on demand, and
// cmd/drover runs it.
package logpipe

import (
	"path/filepath"

	"github.com/drover-project/drover/sdk/tasklog"
)

// Pipe is one FIFO and the log files for its content.
type Pipe struct {
	Path          string // path of the FIFO
	Base          string // name of the log files: Base.0, Base.1 and so on
	MaxFiles      int
	MaxFileSizeMB int
}

// open opens the log; close ends the writing.
func (p Pipe) open() (w *tasklog.Writer, close func(), err error) {
	at := filepath.Dir(p.Base)
	dir, err := tasklog.OpenDir(at, at)
	if err != nil {
		return nil, nil, err
	}
	w = tasklog.New(dir, filepath.Base(p.Base), tasklog.Limits{MaxFiles: p.MaxFiles, MaxFileBytes: int64(p.MaxFileSizeMB) << 20})
	return w, func() {
		w.Close()
		_ = dir.Close() // only names were looked up in it
	}, nil
}

// request is one line of JSON that a client sends to the collector, and answer is the
// collector's reply.
type request struct {
	Attach *Pipe  `json:",omitempty"`
	Detach string `json:",omitempty"` // path of a FIFO
}

type answer struct {
	Error string `json:",omitempty"`
	Pipes int
}

// maxRequest bounds a request's line in bytes: two paths and two numbers.
const maxRequest = 16 << 10
