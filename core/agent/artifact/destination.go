// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/sdk/errdefs"
)

// destination is the place for an artifact.
type destination struct {
	alloc string // absolute path of the alloc's folder
	rel   string // relative to alloc; begins with the task's folder or the shared one
	dir   bool   // has a trailing slash
}

// destinationOf returns the destination of an artifact: below the task's directory, or
// in the shared folder of the alloc ("../alloc/x", or an absolute path below
// NOMAD_ALLOC_DIR as the task's driver shows it). Other destinations are rejected.
func destinationOf(req Request) (destination, error) {
	if !filepath.IsAbs(req.TaskDir) || filepath.Clean(req.TaskDir) == string(filepath.Separator) {
		return destination{}, errdefs.InvalidArgumentf("the task folder %q is not an absolute path; this is a defect of the caller", req.TaskDir)
	}
	task := filepath.Clean(req.TaskDir)
	alloc, name := filepath.Dir(task), filepath.Base(task)
	want := filepath.FromSlash(req.Artifact.RelativeDest)
	full := filepath.Join(task, want)
	if filepath.IsAbs(want) {
		clean := filepath.Clean(want)
		shared := string(filepath.Separator) + allocdir.SharedDir
		switch {
		case within(clean, alloc):
			full = clean
		case within(clean, shared): // NOMAD_ALLOC_DIR of a task with its own root file system
			full = filepath.Join(alloc, allocdir.SharedDir, strings.TrimPrefix(clean, shared))
		}
	}
	rel, err := filepath.Rel(alloc, full)
	if err != nil || !within(full, task) && !within(full, filepath.Join(alloc, allocdir.SharedDir)) {
		return destination{}, errdefs.InvalidArgumentf("destination %q leaves the task's folder; name a folder below it, or ../%s for the shared one", req.Artifact.RelativeDest, allocdir.SharedDir)
	}
	if private := filepath.Join(name, allocdir.PrivateDir); within(rel, private) {
		return destination{}, errdefs.InvalidArgumentf("destination %q is the node's own; use local/ instead", req.Artifact.RelativeDest)
	}
	return destination{alloc: alloc, rel: rel, dir: strings.HasSuffix(want, string(filepath.Separator))}, nil
}

// within reports whether a clean path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+string(filepath.Separator))
}
