// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package pacer sets the target of Go's garbage collector for an agent, so that its memory
// follows what it really uses. It collects nothing itself. cmd/drover/daemon imports it, and
// the benchmark of a start.
package pacer

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// leastRoom is the garbage in bytes that may always accumulate before a collection,
// so that a small agent does not collect all the time. The Go runtime has the same
// minimum.
const leastRoom = 4 << 20

// pacer sets the target of the garbage collector. Like the runtime's default it lets
// garbage grow to the size of the live heap, but it does not count the write buffers
// of the stores: they are live heap but mostly untouched memory, and counting them
// would allow as much garbage in addition.
type pacer struct {
	buffers  uint64
	percent  int
	live     []metrics.Sample
	starting atomic.Bool
}

// While an agent starts it may replay a long log. This makes several times as much
// garbage as the resulting state, and the peak determines how much memory the
// machine must have. So garbage is collected more often during a start, once the
// live heap is large.
const (
	startLive    = 32 << 20
	startPercent = 20
)

// Start sets the collector's target now and after each collection, until the process ends.
// buffers is the size of the stores' write buffers. It does nothing if GOGC is set. The
// caller calls started when the agent has started.
func Start(buffers int64) (started func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &pacer{buffers: uint64(buffers), live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	p.starting.Store(true)
	p.next()
	return func() { p.starting.Store(false) }
}

// next adjusts the target, and runs again after the next collection: the cleanup of
// an unreachable object triggers it.
func (p *pacer) next() {
	metrics.Read(p.live)
	if percent := gcPercent(p.live[0].Value.Uint64(), p.buffers, p.starting.Load()); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(&struct{ mark *pacer }{p}, (*pacer).next, p)
}

// gcPercent returns the value for debug.SetGCPercent.
func gcPercent(live, buffers uint64, starting bool) int {
	if live <= buffers { // the stores are not open yet
		return 100
	}
	used := live - buffers
	if starting && used > startLive {
		used = used * startPercent / 100
	}
	return int(max(used, leastRoom) * 100 / live)
}
