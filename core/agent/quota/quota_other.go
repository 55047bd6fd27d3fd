// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package quota

import "context"

// Supported says why directories cannot be limited.
func Supported(dir string) error { return unsupported(dir, "it is not Linux") }

// Limit limits a directory.
func Limit(_ context.Context, dir string, _ int64) error { return Supported(dir) }

// Measure returns what a limited directory takes.
func Measure(string) (Usage, bool) { return Usage{}, false }

// Adopt makes a directory count as part of a limited one.
func Adopt(context.Context, string, string) error { return nil }

// Release forgets the limit of a directory.
func Release(string) {}
