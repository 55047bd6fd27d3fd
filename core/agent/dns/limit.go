// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxClients is how many clients are remembered for their limits. The one that was silent for
// the longest makes room.
const maxClients = 8192

// clients limits the questions of each client. An IPv6 network counts as one client, because a
// client may use any number of its addresses.
type clients struct {
	each int // questions per second; 0 is no limit
	now  func() time.Time

	mu    sync.Mutex
	known map[netip.Prefix]*client
}

type client struct {
	limit *rate.Limiter
	fresh *rate.Limiter // of questions about services that are not followed yet
	used  time.Time
	over  int // questions above the limit, one after another
}

// allow reports whether a client may ask. The second result is for one that may not: every
// other time it is told to come back over TCP, for which it must have the address that it says.
func (c *clients) allow(a netip.Addr) (ok, tell bool) {
	if c.each <= 0 {
		return true, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	one := c.find(a, now)
	if one.limit.AllowN(now, 1) {
		one.over = 0
		return true, false
	}
	one.over++
	return false, one.over%2 == 0
}

// fresh reports whether a client may ask about a service that is not followed yet.
func (c *clients) fresh(a netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	return c.find(a, now).fresh.AllowN(now, 1)
}

// find returns the limits of a client. c.mu is held.
func (c *clients) find(a netip.Addr, now time.Time) *client {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	network := netip.PrefixFrom(a.WithZone(""), bits).Masked()
	one := c.known[network]
	if one == nil {
		if len(c.known) >= maxClients {
			c.makeRoom()
		}
		one = &client{limit: rate.NewLimiter(rate.Limit(c.each), 2*c.each), fresh: rate.NewLimiter(freshEach, freshEachBurst)}
		c.known[network] = one
	}
	one.used = now
	return one
}

func (c *clients) makeRoom() {
	var oldest netip.Prefix
	var at time.Time
	for network, one := range c.known {
		if at.IsZero() || one.used.Before(at) {
			oldest, at = network, one.used
		}
	}
	delete(c.known, oldest)
}
