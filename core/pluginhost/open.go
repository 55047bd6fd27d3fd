// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/plugin"
)

// Opened is a plugin process that the host launched for its caller alone: it is not
// supervised, and its drivers are not offered under their names.
type Opened struct {
	Info    plugin.Info
	Foreign bool // it was built for Nomad
	PID     int
	Took    time.Duration // from its launch to its Info
	kinds.Served

	process *process.Process
}

// Open launches one executable, for callers that inspect a plugin instead of running
// tasks with it. Nothing in it is configured yet.
func (h *Host) Open(ctx context.Context, path string) (*Opened, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the plugin: %w", err)
	}
	begin := time.Now()
	p, err := h.launcher.Launch(ctx, process.File{Name: strings.TrimSuffix(filepath.Base(path), ".exe"), Path: path})
	if err != nil {
		return nil, err
	}
	o := &Opened{Info: p.Info, Foreign: p.Foreign(), PID: p.PID, Took: time.Since(begin), process: p}
	if o.Served, err = h.kinds.Inspect(ctx, p); err != nil {
		p.Kill()
		return nil, fmt.Errorf("plugin %s: %w", path, err)
	}
	return o, nil
}

// Kill kills the process without a shutdown, like a crash.
func (o *Opened) Kill() { o.process.Kill() }

// Close asks the process to end and kills it if it does not.
func (o *Opened) Close() { o.process.Stop() }
