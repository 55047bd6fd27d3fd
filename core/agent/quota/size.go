// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package quota

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/time/rate"
)

const (
	page     = 256     // entries of a directory that are read at a time
	maxLinks = 100_000 // files with several names that are told apart
	maxOpen  = 1 << 20 // directories that wait to be looked at
)

// sizer measures one directory.
type sizer struct {
	root   *os.Root
	budget *rate.Limiter
	device uint64
	seen   map[uint64]bool // files with several names, which count once
	next   []string        // directories that are still to be looked at
	bytes  int64
}

// sizeOf returns how many bytes of its disk a directory takes, with all that is in it and not
// mounted there. It looks at no more entries than the budget allows, and follows no links.
func sizeOf(ctx context.Context, dir string, budget *rate.Limiter) (int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("measure a directory: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return 0, fmt.Errorf("measure a directory: %w", err)
	}
	top := entryOf(info)
	s := sizer{root: root, budget: budget, device: top.device, seen: map[uint64]bool{}, next: []string{"."}, bytes: top.bytes}
	for len(s.next) > 0 {
		last := len(s.next) - 1
		name := s.next[last]
		s.next = s.next[:last]
		if err := s.directory(ctx, name); err != nil {
			return 0, err
		}
	}
	return s.bytes, nil
}

// directory adds what is in a directory. One that has vanished or was replaced counts
// nothing.
func (s *sizer) directory(ctx context.Context, name string) error {
	f, err := s.root.OpenFile(name, openDirectory, 0)
	if err != nil {
		return ctx.Err()
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(page)
		for _, e := range entries {
			if err := s.budget.Wait(ctx); err != nil {
				return fmt.Errorf("measure a directory: %w", err)
			}
			s.entry(name, e)
		}
		if err != nil || len(entries) == 0 {
			return ctx.Err() // that was all, or the directory is gone
		}
	}
}

func (s *sizer) entry(dir string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil {
		return
	}
	of := entryOf(info)
	if of.device != s.device {
		return // it is mounted there
	}
	if of.links > 1 && !info.IsDir() {
		if s.seen[of.file] {
			return
		}
		if len(s.seen) < maxLinks {
			s.seen[of.file] = true
		}
	}
	s.bytes += of.bytes
	if info.IsDir() && len(s.next) < maxOpen {
		s.next = append(s.next, path.Join(dir, e.Name()))
	}
}

// entry is what a file takes.
type entry struct {
	device, file, links uint64
	bytes               int64
}
