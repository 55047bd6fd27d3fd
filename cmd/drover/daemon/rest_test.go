// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import "testing"

// A collection runs only if there is no work and much free memory in relation to the
// live heap.
func TestFreeMemoryIsGivenBackAtRestOnly(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name                  string
		allocated, free, live uint64
		want                  bool
	}{
		{"a small agent at rest after work", mib / 2, 10 * mib, 30 * mib, true},
		{"the same while it works", 50 * mib, 10 * mib, 30 * mib, false},
		{"at rest with little that is free", mib / 2, 2 * mib, 30 * mib, false},
		{"a large server, whose collection costs more", mib, 50 * mib, 1000 * mib, false},
		{"a large server that holds much free memory", mib, 70 * mib, 1000 * mib, true},
	} {
		before := heapSample{allocated: 100 * mib}
		now := heapSample{allocated: before.allocated + c.allocated, free: c.free, live: c.live}
		if got := restsWithSpareMemory(before, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
