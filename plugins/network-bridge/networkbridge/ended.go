// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ended are the addresses of allocs that are gone, to which the kernel may still translate
// connections. It looks at all connections of the machine to end those, which takes some 15 ms,
// so it is done once for all addresses that wait for it, and nobody has one of them before.
type ended struct {
	// forget ends the translation of connections to the addresses of which gone is true; with
	// six, also those of IPv6.
	forget func(six bool, gone func(netip.Addr) bool)

	mu      sync.Mutex
	known   bool // what an earlier process has left is known to be forgotten
	waiting map[netip.Addr]bool
	idle    chan struct{} // closed while nothing waits
}

func newEnded(forget func(bool, func(netip.Addr) bool)) *ended {
	e := &ended{forget: forget, waiting: map[netip.Addr]bool{}, idle: make(chan struct{})}
	close(e.idle)
	return e
}

// add forgets the connections to addresses, soon.
func (e *ended) add(list []netip.Prefix) {
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := len(e.waiting) == 0
	for _, p := range list {
		e.waiting[p.Addr()] = true
	}
	if begin && len(e.waiting) > 0 {
		e.idle = make(chan struct{})
		go e.run()
	}
}

// together is how long addresses wait for others.
const together = 200 * time.Millisecond

func (e *ended) run() {
	for {
		time.Sleep(together)
		e.mu.Lock()
		batch := maps.Clone(e.waiting)
		e.mu.Unlock()
		six := false
		for a := range batch {
			six = six || a.Is6()
		}
		e.forget(six, func(a netip.Addr) bool { return batch[a] })
		e.mu.Lock()
		for a := range batch {
			delete(e.waiting, a)
		}
		if len(e.waiting) == 0 {
			close(e.idle)
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
	}
}

// addresses returns those that nobody may have yet. The first call forgets the connections to
// all addresses of the subnets that no record has: a killed process may not have done it.
func (e *ended) addresses(set settings, all map[string]*record) map[netip.Addr]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known {
		used := map[netip.Addr]bool{}
		for _, r := range all {
			for _, p := range r.Addresses {
				used[p.Addr()] = true
			}
		}
		e.forget(len(set.subnets) > 1, func(a netip.Addr) bool {
			return !used[a] && slices.ContainsFunc(set.subnets, func(s netip.Prefix) bool { return s.Contains(a) && s.Addr().Next() != a })
		})
		e.known = true
	}
	return maps.Clone(e.waiting)
}

// wait waits until no address waits, and reports whether one did.
func (e *ended) wait(ctx context.Context) bool {
	e.mu.Lock()
	idle := e.idle
	e.mu.Unlock()
	select {
	case <-idle:
		return false
	default:
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}
