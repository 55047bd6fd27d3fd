// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// root is a directory or a single file that tasks may use.
type root struct {
	path string // with links resolved
	dir  int    // the directory, or the directory of the file
	name string // name of the file; "" for a directory
}

func (r root) close() { _ = unix.Close(r.dir) } // an O_PATH descriptor

// openRoots opens the directories and files that tasks may use. Paths that do not
// exist are skipped.
func openRoots(paths []string) ([]root, error) {
	var out []root
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue
		}
		r := root{path: real}
		if st, err := os.Lstat(real); err == nil && !st.IsDir() {
			r.name, real = filepath.Base(real), filepath.Dir(real)
		}
		if r.dir, err = unix.Open(real, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			for _, r := range out {
				r.close()
			}
			return nil, errdefs.FailedPreconditionf("open %s, where images may be: %w", p, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// openBeneath opens a regular file that is below a root. It resolves links first and
// opens the result without following links, so it fails if a link is created
// meanwhile. Files outside the roots are not accessed.
func openBeneath(roots []root, path string, write bool) (*os.File, string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		if !allowed(roots, filepath.Clean(path)) {
			return nil, "", forbidden(path, path, roots) // do not reveal whether the file exists
		}
		gone := errdefs.InvalidArgumentf("image %s: there is no such file: %w; fetch it with an artifact, or correct config.image_path", path, errors.Unwrap(err))
		return nil, "", errdefs.WithDetail(errdefs.WithReason(gone, "image_not_found"), "image", path)
	}
	for _, r := range roots {
		rel, ok := r.has(real)
		if !ok {
			continue
		}
		mode := unix.O_RDONLY
		if write {
			mode = unix.O_RDWR
		}
		// O_NONBLOCK, because opening a FIFO would block.
		how := &unix.OpenHow{Flags: uint64(mode) | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
		fd, err := unix.Openat2(r.dir, rel, how)
		if err != nil {
			return nil, "", openError(path, write, err)
		}
		file := os.NewFile(uintptr(fd), real)
		if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
			return nil, "", errors.Join(errdefs.InvalidArgumentf("image %s: it is not a regular file", path), err, file.Close())
		}
		return file, real, nil
	}
	return nil, "", forbidden(path, real, roots)
}

// has reports whether a resolved path is below the root, and returns its name
// relative to r.dir.
func (r root) has(real string) (string, bool) {
	if r.name != "" {
		return r.name, real == r.path
	}
	rel, err := filepath.Rel(r.path, real)
	return rel, err == nil && rel != "." && filepath.IsLocal(rel)
}

func allowed(roots []root, path string) bool {
	for _, r := range roots {
		if _, ok := r.has(path); ok {
			return true
		}
	}
	return false
}

func forbidden(path, real string, roots []root) error {
	where := make([]string, len(roots))
	for i, r := range roots {
		where[i] = r.path
	}
	leads := ""
	if real != path {
		leads = ", which is " + real + ","
	}
	return errdefs.PermissionDeniedf("image %s%s is in none of %s; put it into the task's directory, or have the operator add its place to image_paths in the agent's plugin \"qemu\" config", path, leads, strings.Join(where, ", "))
}

func openError(path string, write bool, err error) error {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		what, cure := "read", "let the task's user read it"
		if write {
			what, cure = "written", "let the task's user write it, or use args = [\"-snapshot\"]"
		}
		return errdefs.PermissionDeniedf("image %s cannot be %s: %w; %s", path, what, err, cure)
	case errors.Is(err, unix.ENOSYS):
		return errdefs.FailedPreconditionf("image %s: open it in its directory: %w; Linux 5.6 or later is needed", path, err)
	}
	return errdefs.InvalidArgumentf("image %s: %w", path, fmt.Errorf("open it: %w", err))
}
