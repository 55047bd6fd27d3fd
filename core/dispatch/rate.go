// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import "time"

// beatsPerLease is the number of heartbeats of a node within its lease.
const beatsPerLease = 3

// leaseOf returns the lease of nodes in a cluster of the given size: at least least,
// and long enough that all nodes together send at most rate heartbeats per second. A
// rate of 0 means no limit.
func leaseOf(nodes int, least time.Duration, rate float64) time.Duration {
	if rate <= 0 {
		return least
	}
	return max(least, time.Duration(float64(beatsPerLease*nodes)/rate*float64(time.Second)))
}

// lease returns the current lease of a node, without the grace.
func (d *Dispatcher) lease() time.Duration {
	return leaseOf(d.cfg.Store.View().NodeCount(), d.cfg.TTL, d.cfg.MaxBeats)
}

// whole returns how long a node may be silent of which the previous leader may have
// heard.
func (d *Dispatcher) whole() time.Duration {
	return max(d.lease()+d.cfg.Grace, d.cfg.FailoverTTL)
}
