// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sweep removes what a killed agent left in the host's own directories: partly fetched
// files, versions of plugins that no longer exist, and sockets without listeners. It
// is called before anything runs.
func (h *Host) sweep(ctx context.Context) {
	names := h.catalog.names()
	entries, err := os.ReadDir(h.versions.dir)
	if err != nil {
		entries = nil // there are none
	}
	for _, e := range entries {
		if slices.Contains(names, e.Name()) {
			h.prune(e.Name())
			continue
		}
		_ = os.RemoveAll(filepath.Join(h.versions.dir, e.Name())) // tried again at the next start
	}
	h.sweepSockets(ctx)
}

// socketPrefix is that of the sockets of plugins.
const socketPrefix = "plugin"

// dialLimit limits the time for trying all sockets.
const dialLimit = 2 * time.Second

func (h *Host) sweepSockets(ctx context.Context) {
	entries, err := os.ReadDir(h.socketDir)
	if err != nil {
		return // it was made a moment ago
	}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 || !strings.HasPrefix(e.Name(), socketPrefix) {
			continue
		}
		path := filepath.Join(h.socketDir, e.Name())
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			_ = conn.Close() // somebody listens
		case isRefused(err):
			_ = os.Remove(path) // tried again at the next start
		}
	}
}

// removeSocket removes the socket of an ended process, which a killed process leaves
// behind.
func (p *process) removeSocket() {
	if p.socket != "" {
		_ = os.Remove(p.socket) // who ends by itself has removed it
	}
}
