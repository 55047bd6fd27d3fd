// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// unusable lists, by name, the files in plugin_dir that look like plugins but cannot
// be used, so that an operator learns why nothing happens.
type unusable struct {
	mu   sync.Mutex
	list []PluginStatus
}

// Listed is Status for users: it also contains first installs that are in progress or
// failed, and unusable files in plugin_dir.
func (h *Host) Listed() []PluginStatus {
	out := h.Status()
	known := map[string]bool{}
	for _, st := range out {
		known[st.Name] = true
	}
	for _, st := range h.works.newcomers(func(name string) bool { return known[name] }) {
		known[st.Name] = true
		out = append(out, st)
	}
	h.unusable.mu.Lock()
	defer h.unusable.mu.Unlock()
	for _, st := range h.unusable.list {
		if !known[st.Name] { // its link may lead nowhere while its process runs
			out = append(out, st)
		}
	}
	slices.SortStableFunc(out, func(a, b PluginStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// notice looks for such files and logs each once.
func (h *Host) notice() {
	found := lookalikes(h.cfg.Dir, h.cfg.Disabled)
	h.unusable.mu.Lock()
	before := h.unusable.list
	h.unusable.list = found
	h.unusable.mu.Unlock()
	for _, st := range found {
		if !slices.ContainsFunc(before, func(b PluginStatus) bool { return b.Name == st.Name }) {
			h.cfg.Logger.Warn("a file in plugin_dir is passed over", "error", st.LastError)
		}
	}
}

// maxUnusable limits the list.
const maxUnusable = 50

func lookalikes(dir string, disabled []string) []PluginStatus {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // discovery reports the error
	}
	var out []PluginStatus
	for _, c := range candidates(entries, dir, disabled) {
		if len(out) == maxUnusable {
			break
		}
		if why := whyUnusable(c.Path); why != nil {
			out = append(out, PluginStatus{Name: c.Name, Path: c.Path, State: StateUnusable, LastError: why})
		}
	}
	return out
}

// whyUnusable returns nil for a plugin, and for a file that was never meant to be one.
func whyUnusable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target, err := os.Readlink(path); err == nil {
			return errdefs.FailedPreconditionf("%s is a link to %s, which does not exist; correct or remove it", path, target)
		}
		return nil // it has just gone
	case err != nil:
		return errdefs.FailedPreconditionf("%s cannot be looked at: %w", path, err)
	case !info.Mode().IsRegular() || executable(info, path) || !isProgram(path):
		return nil
	}
	return errdefs.FailedPreconditionf("%s is a program that nobody may execute (mode %s); if it is a plugin: chmod +x %s", path, info.Mode(), path)
}

// isProgram tells an executable by how it begins.
func isProgram(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head) // what is shorter is none
	for _, magic := range []string{"\x7fELF", "#!", "\xcf\xfa\xed\xfe", "MZ"} {
		if bytes.HasPrefix(head[:n], []byte(magic)) {
			return true
		}
	}
	return false
}
