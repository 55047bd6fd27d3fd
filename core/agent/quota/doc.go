// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package quota owns how much of a disk a directory may take. It limits directories by the
// project quotas of xfs and ext4. Directories that it cannot limit it measures, slowly and one
// after another, so that big directories cost a node little. It does not decide what happens
// when a directory has become too large. Only core/agent and packages below it may import it.
//
// A limited directory has a project id, which all files that are made in it inherit. The id is
// stored only on the directory itself, so an agent that restarts has nothing to remember.
package quota

import (
	"context"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Usage is what a directory takes of its disk.
type Usage struct {
	Bytes int64
	// Limit is enforced by the file system; 0 means that it enforces none.
	Limit int64
}

// minimum is the smallest limit: file systems round limits to blocks.
const minimum = 64 << 10

// unsupported returns the error of a directory whose file system has no project quotas. Its
// class is Unimplemented.
func unsupported(dir, format string, args ...any) error {
	return errdefs.Unimplementedf("the file system of %s limits no directories: %w", dir, errdefs.Unimplementedf(format, args...))
}

// Disks limits directories by the functions of this package, for those who take it as an
// interface.
type Disks struct{}

// Limit calls Limit.
func (Disks) Limit(ctx context.Context, dir string, bytes int64) error { return Limit(ctx, dir, bytes) }

// Adopt calls Adopt.
func (Disks) Adopt(ctx context.Context, dir, into string) error { return Adopt(ctx, dir, into) }

// Release calls Release.
func (Disks) Release(dir string) { Release(dir) }
