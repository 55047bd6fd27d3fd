// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"testing"
	"time"
)

const mib = 1 << 20

// Long after work a collection runs only if there is much free memory in relation to the
// live heap.
func TestFreeMemoryIsGivenBackAtRestOnly(t *testing.T) {
	for _, c := range []struct {
		name                  string
		allocated, free, live uint64
		want                  bool
	}{
		{"a small agent at rest with free memory", mib / 2, 10 * mib, 30 * mib, true},
		{"the same while it works", 50 * mib, 10 * mib, 30 * mib, false},
		{"at rest with little that is free", mib / 2, 2 * mib, 30 * mib, false},
		{"a large server, whose collection costs more", mib, 50 * mib, 1000 * mib, false},
		{"a large server that holds much free memory", mib, 70 * mib, 1000 * mib, true},
		{"a server with thousands of idle nodes", 20 * mib, 70 * mib, 200 * mib, true},
		{"the same while they come", 40 * mib, 70 * mib, 200 * mib, false},
	} {
		before := heapSample{allocated: 100 * mib}
		now := heapSample{allocated: before.allocated + c.allocated, free: c.free, live: c.live}
		if got := new(rest).collects(before, now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAfterWorkThereAreSoManyCollectionsAtRestAndNoMore(t *testing.T) {
	var r rest
	now := heapSample{live: 30 * mib}
	pass := func(allocated uint64) bool {
		before := now
		now.allocated += allocated
		return r.collects(before, now)
	}
	for range 2 {
		for range 3 {
			if pass(50 * mib) {
				t.Error("a collection during work")
			}
		}
		for n := range restCollections + 2 {
			if got := pass(mib / 2); got != (n < restCollections) {
				t.Errorf("interval %d at rest: %v", n, got)
			}
		}
	}
}

func TestCollectionsAfterWorkFollowEachOtherSoon(t *testing.T) {
	r := rest{owed: restCollections}
	now := heapSample{live: 30 * mib}
	for n, step := range []struct {
		allocated uint64
		next      time.Duration
	}{
		{50 * mib, restFirst}, // it starts
		{mib, restAgain}, {mib, restAgain}, {mib, restInterval},
		{50 * mib, restInterval}, // work
		{mib, restAgain}, {mib, restAgain},
		{50 * mib, restInterval}, // work before it has rested
		{mib, restAgain}, {mib, restAgain}, {mib, restInterval}, {mib, restInterval},
	} {
		before := now
		now.allocated += step.allocated
		r.collects(before, now)
		if got := r.next(); got != step.next {
			t.Errorf("step %d: the next look is in %v, want %v", n, got, step.next)
		}
	}
}
