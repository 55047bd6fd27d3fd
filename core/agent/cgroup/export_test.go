// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package cgroup

import "os"

// NewFake returns a tree on ordinary directories, which hold files when they are
// removed.
func NewFake(cfg Config) *Tree {
	t := New(cfg)
	t.rmdir = os.RemoveAll
	return t
}
