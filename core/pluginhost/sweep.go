// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"os"
	"path/filepath"
	"slices"
)

// sweep removes what a killed agent left in the host's own directories: partly fetched
// files, and versions of plugins that no longer exist. It is called before anything
// runs.
func (h *Host) sweep() {
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
}
