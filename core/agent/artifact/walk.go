// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"fmt"
	"io"
	"os"
	"path"

	"github.com/drover-project/drover/sdk/errdefs"
)

// maxEntries bounds the files and folders of any artifact, and maxDepth how deep
// they are nested.
const (
	maxEntries = 2_000_000
	maxDepth   = 512
)

// walk calls visit for name and everything below it, a folder before what is in
// it. It follows no link and reads big folders piecewise.
func walk(root *os.Root, name string, visit func(path string, info os.FileInfo) error) error {
	left := maxEntries
	return walkBelow(root, name, 0, &left, visit)
}

func walkBelow(root *os.Root, name string, depth int, left *int, visit func(string, os.FileInfo) error) error {
	if depth > maxDepth {
		return errdefs.InvalidArgumentf("folders are nested deeper than %d", maxDepth)
	}
	if *left--; *left < 0 {
		return errdefs.InvalidArgumentf("there are more than %d files", maxEntries)
	}
	info, err := root.Lstat(name)
	if err != nil {
		return fmt.Errorf("look at %q: %w", name, err)
	}
	if err := visit(name, info); err != nil {
		return err
	}
	if !info.IsDir() {
		return nil
	}
	names, err := namesOf(root, name, *left)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := walkBelow(root, path.Join(name, n), depth+1, left, visit); err != nil {
			return err
		}
	}
	return nil
}

// namesOf returns what is in a folder: at most limit names.
func namesOf(root *os.Root, name string, limit int) ([]string, error) {
	dir, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the folder %q: %w", name, err)
	}
	defer func() { _ = dir.Close() }()
	var all []string
	for {
		names, err := dir.Readdirnames(1024)
		all = append(all, names...)
		if len(all) > limit {
			return nil, errdefs.InvalidArgumentf("there are more than %d files", maxEntries)
		}
		if err == io.EOF || err == nil && len(names) == 0 {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the folder %q: %w", name, err)
		}
	}
}
