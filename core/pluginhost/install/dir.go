// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Dir is plugin_dir.
type Dir struct {
	Path     string
	Disabled []string // names that are passed over
	// Mark makes the names of temporary files unique, because several agents may share
	// the directory.
	Mark string
}

// PathOf returns the path of a plugin's file, absolute if possible.
func (d Dir) PathOf(name string) string {
	path, err := filepath.Abs(filepath.Join(d.Path, name+exeSuffix()))
	if err != nil {
		return filepath.Join(d.Path, name+exeSuffix())
	}
	return path
}

// Discover lists the executables in the directory, except disabled ones. They may be
// links to one binary that contains many plugins and selects one by the name under
// which it is called.
func (d Dir) Discover() ([]process.File, error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errdefs.FailedPreconditionf("read plugin_dir: %w", err)
	}
	var out []process.File
	for _, c := range d.candidates(entries) {
		info, err := os.Stat(c.Path)
		if err != nil || !info.Mode().IsRegular() || !executable(info, c.Path) {
			continue // a README, a directory or a broken link is not a plugin
		}
		if c.Path, err = filepath.Abs(c.Path); err != nil {
			return nil, fmt.Errorf("plugin %q: %w", c.Name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// candidates returns the entries of plugin_dir whose names are valid for a plugin.
func (d Dir) candidates(entries []fs.DirEntry) []process.File {
	var out []process.File
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".exe")
		if strings.HasPrefix(name, ".") || slices.Contains(d.Disabled, name) {
			continue
		}
		out = append(out, process.File{Name: name, Path: filepath.Join(d.Path, e.Name())})
	}
	return out
}

// Find returns the executable of one name, even of a disabled one.
func (d Dir) Find(name string) (f process.File, isThere bool, err error) {
	d.Disabled = nil
	files, err := d.Discover()
	for _, f := range files {
		if f.Name == name {
			return f, true, nil
		}
	}
	return process.File{}, false, err
}

func executable(info fs.FileInfo, name string) bool {
	if runtime.GOOS == "windows" {
		return strings.HasSuffix(name, ".exe")
	}
	return info.Mode().Perm()&0o111 != 0
}

// Place puts a stored version into plugin_dir.
func (d Dir) Place(stored, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return diskError(err, "make plugin_dir "+filepath.Dir(path))
	}
	if isNoExec(filepath.Dir(path)) {
		return errdefs.FailedPreconditionf("put the plugin into %s: its file system is mounted noexec, so nothing in it can be run; mount it with exec, or set another plugin_dir", filepath.Dir(path))
	}
	return place(stored, path, d.Mark)
}

// Remove removes a plugin's file from plugin_dir.
func (d Dir) Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(err, "remove the plugin")
	}
	return nil
}
