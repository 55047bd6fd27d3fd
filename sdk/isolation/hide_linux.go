// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package isolation

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// hide covers hidden directories in what the task sees of the machine. The mounts must
// be there already, because only a mount that exists can be covered. With named, a mount
// of exactly a hidden directory shows it: collectors of logs have volumes of the
// directory of all tasks.
func (t *tree) hide(seen []Bind, hidden []string, named bool) error {
	for _, b := range seen {
		if info, err := os.Lstat(b.Source); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			continue // nothing was mounted
		}
		source := realPath(b.Source)
		for _, dir := range hidden {
			rel, err := filepath.Rel(source, dir)
			if err != nil || !filepath.IsLocal(rel) || named && rel == "." {
				continue
			}
			if b.Propagation == "bidirectional" {
				// What covers the directory for the task would cover it for the machine, too.
				return fmt.Errorf("mount %s on %s: it contains the agent's directory %s, which cannot be hidden from a task whose mount is bidirectional; mount directories beside it, or use another propagation mode", b.Source, b.Target, dir)
			}
			if err := t.cover(filepath.Join(b.Target, rel)); err != nil {
				return err
			}
		}
	}
	return nil
}

// realPaths returns paths without the links on their way: a directory may be shown by
// another path than the one by which it is hidden.
func realPaths(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, path := range paths {
		out = append(out, realPath(path))
	}
	return out
}

func realPath(path string) string {
	if out, err := filepath.EvalSymlinks(path); err == nil {
		return out
	}
	return filepath.Clean(path) // it does not exist
}
