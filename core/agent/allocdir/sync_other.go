// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package allocdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// syncTree writes the files of a folder to disk.
func syncTree(path string) error {
	return filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil // its owner may not write to it
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
