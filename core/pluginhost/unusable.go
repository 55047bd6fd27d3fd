// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/core/pluginhost/install"
)

// unusable lists, by name, the files in plugin_dir that look like plugins but cannot
// be used, so that an operator learns why nothing happens.
type unusable struct {
	mu   sync.Mutex
	list []install.Unusable
}

// Listed is Status for users: it also contains first installs that are in progress or
// failed, and unusable files in plugin_dir.
func (h *Host) Listed() []PluginStatus {
	out := h.Status()
	known := map[string]bool{}
	for _, st := range out {
		known[st.Name] = true
	}
	for name, work := range h.works.All() {
		switch {
		case known[name]:
			continue
		case work.Ended.IsZero():
			out = append(out, PluginStatus{Name: name, State: StateInstalling, Work: &work})
		case work.Err != nil:
			out = append(out, PluginStatus{Name: name, State: StateNotInstalled, LastError: work.Err, Work: &work})
		default:
			continue
		}
		known[name] = true
	}
	h.unusable.mu.Lock()
	defer h.unusable.mu.Unlock()
	for _, u := range h.unusable.list {
		if !known[u.File.Name] { // its link may lead nowhere while its process runs
			out = append(out, PluginStatus{Name: u.File.Name, Path: u.File.Path, State: StateUnusable, LastError: u.Why})
		}
	}
	slices.SortStableFunc(out, func(a, b PluginStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// notice looks for unusable files and logs each once.
func (h *Host) notice() {
	found := h.dir.Unusable()
	h.unusable.mu.Lock()
	before := h.unusable.list
	h.unusable.list = found
	h.unusable.mu.Unlock()
	for _, u := range found {
		if !slices.ContainsFunc(before, func(b install.Unusable) bool { return b.File.Name == u.File.Name }) {
			h.cfg.Logger.Warn("a file in plugin_dir is passed over", "error", u.Why)
		}
	}
}
