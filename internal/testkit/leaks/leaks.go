// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package leaks finds goroutines that tests of packages with a raft leave behind. It owns
// the list of those that are not ours to end.
package leaks

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and fails if goroutines are left. more are further ones
// that may be.
func Main(m *testing.M, more ...goleak.Option) {
	// A raft that shuts down answers some requests never: see pending in core/consensus.
	goleak.VerifyTestMain(m, append(more, goleak.IgnoreTopFunction("github.com/hashicorp/raft.(*deferError).Error"))...)
}
