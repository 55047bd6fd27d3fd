// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package cgroup

import "context"

// Tree has no groups: there are none on this system.
type Tree struct{}

// New returns a tree without groups.
func New(Config) *Tree { return &Tree{} }

// Make returns nil.
func (*Tree) Make(context.Context, Task) (*Group, error) { return nil, nil }

// Remove has nothing to remove.
func (*Tree) Remove(context.Context, string, string) error { return nil }

// Has returns false.
func (*Tree) Has(string, string) bool { return false }

// Reserve has nothing to keep.
func (*Tree) Reserve(string, []int) bool { return false }

// Shared knows of no cores.
func (*Tree) Shared() ([]int, bool) { return nil, false }

// Adjust has nothing to write.
func (*Tree) Adjust(context.Context) error { return nil }

// Sweep finds nothing.
func (*Tree) Sweep(context.Context, func(allocID, task string) bool) ([]string, error) {
	return nil, nil
}
