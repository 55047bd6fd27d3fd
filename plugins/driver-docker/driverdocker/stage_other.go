// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driverdocker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// canStage reports false: mounting by descriptor exists only on Linux.
func canStage() bool { return false }

func (s *stage) bind(string, string, bool) (string, error) {
	return "", errdefs.Unimplementedf("mounts for containers are made on Linux only")
}

func mountStage(string) error { return nil }

func clearStage(string) error { return nil }

func fileIn(int, string) bool { return false }

// beneath checks that no component of rel is a link: a task could have created it to
// reach files outside its directory. If create is true it creates missing
// directories.
func beneath(dir, rel string, create bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	path := ""
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		path = filepath.Join(path, part)
		st, err := root.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			if !create {
				return errors.New(joinPath(dir, rel) + " does not exist")
			}
			return root.MkdirAll(rel, 0o777)
		}
		if err != nil {
			return err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return errors.New(joinPath(dir, path) + " is a link; mount its target instead")
		}
	}
	return nil
}
