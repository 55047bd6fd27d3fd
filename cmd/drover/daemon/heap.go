// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// leastRoom is the garbage that may always come together before it is collected, as
// in the runtime itself: a small agent is not busy collecting.
const leastRoom = 4 << 20

// pacer sets how much garbage the runtime lets come together: as much as there is
// live data, as is the runtime's own default, but without the stores' write
// buffers. Those are live for the runtime and mostly untouched memory for the
// machine: counted, they would let garbage of their size lie about.
type pacer struct {
	buffers  uint64
	percent  int
	live     []metrics.Sample
	starting atomic.Bool
}

// While an agent starts it may replay a long log, which makes several times as much
// garbage as the state that comes of it. The memory that such a start takes is what
// the machine must have, so it is collected more often, once there is much of it.
const (
	startLive    = 32 << 20
	startPercent = 20
)

// startPacer sets the pace now and after each collection, for as long as the
// process lives. Whoever set GOGC keeps it. The caller says when the agent has started.
func startPacer(buffers int64) (started func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &pacer{buffers: uint64(buffers), live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	p.starting.Store(true)
	p.next()
	return func() { p.starting.Store(false) }
}

// next adjusts, and has itself called when the next collection finds its mark.
func (p *pacer) next() {
	metrics.Read(p.live)
	if percent := gcPercent(p.live[0].Value.Uint64(), p.buffers, p.starting.Load()); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(&struct{ mark *pacer }{p}, (*pacer).next, p)
}

// gcPercent is the garbage that may come together, in percent of the live heap.
func gcPercent(live, buffers uint64, starting bool) int {
	if live <= buffers { // the stores are not open yet
		return 100
	}
	percent := int(max(live-buffers, leastRoom) * 100 / live)
	if starting && live > buffers+startLive {
		return min(percent, startPercent)
	}
	return percent
}
