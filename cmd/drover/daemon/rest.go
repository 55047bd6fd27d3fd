// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	restInterval = 15 * time.Second
	// restAllocates is how much an agent without work allocates in an interval, for
	// beats and looks at its plugins, at the most: 0.3 to 0.8 MB were measured.
	restAllocates = 2 << 20
	// restKeeps is the free memory that is not worth a collection.
	restKeeps = 2 << 20
)

// heapSample is what the decision about free memory depends on, in bytes.
type heapSample struct {
	allocated uint64 // since the process started
	free      uint64 // kept from the machine, used by nothing
	live      uint64 // found by the last collection
}

// releaseAtRest gives the machine back the memory that work has left behind, until
// ctx ends. The runtime gives back what exceeds its next goal by itself; but that
// goal stems from the work, and without work no collection lowers it.
func releaseAtRest(ctx context.Context) {
	tick := time.NewTicker(restInterval)
	defer tick.Stop()
	before := readHeap()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := readHeap()
		if restsWithSpareMemory(before, now) {
			debug.FreeOSMemory()
			now = readHeap()
		}
		before = now
	}
}

// restsWithSpareMemory reports whether next to nothing was allocated between two
// samples and the process keeps free memory that is worth a collection.
func restsWithSpareMemory(before, now heapSample) bool {
	return now.allocated-before.allocated <= restAllocates && now.free > max(restKeeps, now.live/16)
}

func readHeap() heapSample {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return heapSample{allocated: s[0].Value.Uint64(), free: s[1].Value.Uint64(), live: s[2].Value.Uint64()}
}
