// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import "time"

// beatsPerLease is how often a node beats within its lease.
const beatsPerLease = 3

// leaseOf is how long the lease of a node is in a cluster of so many: at least least,
// and so long that all of them together beat at most so often a second. A rate of 0
// is no bound.
func leaseOf(nodes int, least time.Duration, rate float64) time.Duration {
	if rate <= 0 {
		return least
	}
	return max(least, time.Duration(float64(beatsPerLease*nodes)/rate*float64(time.Second)))
}

// lease is how long a node counts as alive after it was heard of, without the grace.
func (d *Dispatcher) lease() time.Duration {
	return leaseOf(d.cfg.Store.View().NodeCount(), d.cfg.TTL, d.cfg.MaxBeats)
}

// whole is how long a node may be silent that the leader before may have heard of.
func (d *Dispatcher) whole() time.Duration {
	return max(d.lease()+d.cfg.Grace, d.cfg.FailoverTTL)
}
