// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

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

// discover lists the executables in dir. They may be links to one binary that contains
// many plugins and selects one by the name under which it is called.
func discover(dir string, disabled []string) ([]process.File, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errdefs.FailedPreconditionf("read plugin_dir: %w", err)
	}
	var out []process.File
	for _, c := range candidates(entries, dir, disabled) {
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
func candidates(entries []fs.DirEntry, dir string, disabled []string) []process.File {
	var out []process.File
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".exe")
		if strings.HasPrefix(name, ".") || slices.Contains(disabled, name) {
			continue
		}
		out = append(out, process.File{Name: name, Path: filepath.Join(dir, e.Name())})
	}
	return out
}

// find returns the executable of one name.
func find(dir, name string) (f process.File, isThere bool, err error) {
	files, err := discover(dir, nil)
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
