// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// flow is a connection, or what the kernel takes for one: packets of UDP between the same two
// ports. It decides with the first packet where all of them go.
type flow struct {
	udp      bool
	from, to netip.AddrPort // as the first packet has them
	// answer and back are from where and to where answers go; they differ from to and from if
	// the kernel translates addresses.
	answer, back netip.AddrPort
}

// outdated tells the flows about which the kernel must decide anew.
type outdated struct {
	gone map[netip.Addr]bool // addresses of allocs that have ended
	// opened are ports of the machine that lead to allocs since a moment ago; without an
	// address they are of all. Who sent to one before, and has not stopped, would never get to
	// the alloc.
	opened map[netip.AddrPort]bool
}

func newOutdated() outdated {
	return outdated{gone: map[netip.Addr]bool{}, opened: map[netip.AddrPort]bool{}}
}

func (o outdated) empty() bool { return len(o.gone)+len(o.opened) == 0 }

func (o outdated) add(more outdated) {
	for a := range more.gone {
		o.gone[a] = true
	}
	for p := range more.opened {
		o.opened[p] = true
	}
}

func (o outdated) remove(some outdated) {
	for a := range some.gone {
		delete(o.gone, a)
	}
	for p := range some.opened {
		delete(o.opened, p)
	}
}

func (o outdated) six() bool {
	for a := range o.gone {
		if a.Is6() {
			return true
		}
	}
	for p := range o.opened {
		if !p.Addr().Is4() {
			return true
		}
	}
	return false
}

func (o outdated) has(f flow) bool {
	if o.gone[f.answer.Addr()] {
		return true
	}
	untranslated := f.answer == f.to && f.back == f.from
	return f.udp && untranslated && (o.opened[f.to] || o.opened[netip.AddrPortFrom(netip.Addr{}, f.to.Port())])
}

// ends returns what is outdated once an alloc has ended, and opens once its ports are open.
func ends(r *record) outdated {
	o := newOutdated()
	for _, p := range r.Addresses {
		o.gone[p.Addr()] = true
	}
	return o
}

func opens(r *record) outdated {
	o := newOutdated()
	for _, p := range r.Ports {
		host, err := netip.ParseAddr(p.HostIP)
		if err != nil || host.IsUnspecified() {
			host = netip.Addr{}
		}
		o.opened[netip.AddrPortFrom(host.Unmap(), uint16(p.HostPort))] = true
	}
	return o
}

// forgetter makes the kernel forget flows. It looks at all of the machine for that, which takes
// some 15 ms, so it is done once for all that waits for it. Nobody gets the address of an alloc
// that has ended before.
type forgetter struct {
	// forget ends the flows for which the function returns true; with six, also those of IPv6.
	forget func(six bool, stale func(flow) bool)

	mu      sync.Mutex
	known   bool // what an earlier process has left is known to be forgotten
	waiting outdated
	idle    chan struct{} // closed while nothing waits
}

func newForgetter(forget func(bool, func(flow) bool)) *forgetter {
	e := &forgetter{forget: forget, waiting: newOutdated(), idle: make(chan struct{})}
	close(e.idle)
	return e
}

// add forgets flows, soon.
func (e *forgetter) add(o outdated) {
	if o.empty() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	begin := e.waiting.empty()
	e.waiting.add(o)
	if begin {
		e.idle = make(chan struct{})
		go e.run()
	}
}

// together is how long outdated flows wait for others.
const together = 200 * time.Millisecond

func (e *forgetter) run() {
	for {
		time.Sleep(together)
		batch := newOutdated()
		e.mu.Lock()
		batch.add(e.waiting)
		e.mu.Unlock()
		e.forget(batch.six(), batch.has)
		e.mu.Lock()
		e.waiting.remove(batch)
		if e.waiting.empty() {
			close(e.idle)
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
	}
}

// addresses returns those that nobody may have yet. The first call forgets what an earlier
// process, which may have been killed, has not: flows to addresses of the subnets that no record
// has, and flows that miss the ports of records.
func (e *forgetter) addresses(set settings, all map[string]*record) map[netip.Addr]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known {
		used, opened := newOutdated(), newOutdated()
		for _, r := range all {
			used.add(ends(r))
			opened.add(opens(r))
		}
		e.forget(len(set.subnets) > 1, func(f flow) bool {
			a := f.answer.Addr()
			ended := !used.gone[a] && slices.ContainsFunc(set.subnets, func(s netip.Prefix) bool { return s.Contains(a) && s.Addr().Next() != a })
			return ended || opened.has(f)
		})
		e.known = true
	}
	waiting := newOutdated()
	waiting.add(e.waiting)
	return waiting.gone
}

// wait waits until nothing waits to be forgotten, and reports whether something did.
func (e *forgetter) wait(ctx context.Context) bool {
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
