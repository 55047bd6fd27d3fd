// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"runtime/metrics"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/idle"
)

const (
	restInterval = 15 * time.Second
	// restFirst is the interval until the first collection: most of the program, and much of
	// the heap, is used only while an agent starts.
	restFirst = time.Second
	// restAllocates is the number of bytes per interval up to which the agent counts as
	// idle. An agent without work allocates 0.3 to 0.8 MB (measured) for heartbeats and
	// plugin polls.
	restAllocates = 2 << 20
	// restShare raises that number to this share of the live heap, but not above restMost.
	// Thousands of idle nodes send heartbeats that allocate more than restAllocates; if their
	// server never counted as idle, it would keep the garbage of their arrival.
	restShare = 8
	restMost  = 32 << 20
	// restKeeps is the free memory in bytes for which a collection is not worth its
	// time.
	restKeeps = 2 << 20
	// restCollections is the number of collections at rest after work, restAgain apart.
	// One is not enough: pools are emptied by the second, and requests and timers hold
	// what they used for some seconds.
	restCollections = 3
	restAgain       = 5 * time.Second
)

// heapSample holds the values, in bytes, on which the decision to release memory
// depends.
type heapSample struct {
	allocated uint64 // total since the process started
	free      uint64 // held by the process but unused
	live      uint64 // live at the last collection
}

// rest decides when to collect. The runtime alone would collect late, because it waits until
// the heap has grown, and the heap of an idle agent hardly grows.
type rest struct {
	owed    int  // how many collections are still to be made after the last work
	started bool // whether the first collection was made
}

// releaseAtRest returns memory to the system when the agent becomes idle, until ctx ends:
// free memory, of which the runtime itself returns only what is above its next heap goal,
// pages of the program, and the mapped files of the stores in dataDir.
func releaseAtRest(ctx context.Context, dataDir string, log hclog.Logger) {
	tick := time.NewTimer(restFirst)
	defer tick.Stop()
	r, before := rest{owed: restCollections}, readHeap()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := readHeap()
		if r.collects(before, now) {
			idle.Release()
			if err := durable.GiveBackMappings(dataDir); err != nil {
				log.Debug("the memory of mapped files was not returned to the system", "error", err)
			}
			now = readHeap()
		}
		before = now
		tick.Reset(r.next())
	}
}

// collects reports whether to collect now: almost nothing was allocated between two
// samples, and either work has ended lately or the process holds free memory that is worth
// a collection.
func (r *rest) collects(before, now heapSample) bool {
	if now.allocated-before.allocated > max(restAllocates, min(now.live/restShare, restMost)) {
		r.owed = restCollections
		return false
	}
	if r.owed > 0 {
		r.owed--
		r.started = true
		return true
	}
	return now.free > max(restKeeps, now.live/16)
}

// next returns the time until the next look.
func (r *rest) next() time.Duration {
	switch {
	case !r.started:
		return restFirst
	case r.owed > 0 && r.owed < restCollections:
		return restAgain
	default:
		return restInterval
	}
}

func readHeap() heapSample {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return heapSample{allocated: s[0].Value.Uint64(), free: s[1].Value.Uint64(), live: s[2].Value.Uint64()}
}
