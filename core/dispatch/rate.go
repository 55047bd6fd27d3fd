// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"time"

	"github.com/drover-project/drover/core/rpc"
)

// beatsPerLease is the largest number of heartbeats of a node within its lease: nodes of
// earlier releases send three; later ones send fewer (rpc.Lease.BeatAfter).
const beatsPerLease = 3

// lateAfter returns the silence after which a node has missed a heartbeat, which the leader
// must know before the lease is over.
func lateAfter(lease time.Duration) time.Duration { return lease * 3 / 4 }

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

// whole returns how long a node may be silent if the previous leader may have heard of it.
func (d *Dispatcher) whole() time.Duration {
	return max(d.lease()+d.cfg.Grace, d.cfg.FailoverTTL)
}

// beatsAt is the number of moments in a lease at which nodes send heartbeats.
const beatsAt = 64

// inStep returns a lease that is at most a fortieth shorter, so that the node's next heartbeat
// is due at a moment at which others send theirs. A server with thousands of idle nodes then
// wakes up some seven times a second and answers many of them each time, where it would
// wake up for nearly each one.
func inStep(lease time.Duration, now time.Time) time.Duration {
	step := lease / beatsAt
	if step < time.Millisecond {
		return lease
	}
	l := rpc.Lease{TTL: lease}
	early := now.Add(l.BeatAfter()).UnixNano() % int64(step)
	return l.BeatEarlier(time.Duration(early)).TTL
}
