// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"math/rand/v2"
	"time"
)

// failures decides when a failed plugin is started again.
type failures struct {
	inRow  int         // since a process ran steadily
	recent []time.Time // those within the window
	loop   bool        // a crash loop
}

// add records that a process that was started at begin has failed now, and returns the
// pause until the next start.
func (f *failures) add(begin, now time.Time, cfg *Timing) (pause time.Duration) {
	if now.Sub(begin) > cfg.Steady {
		*f = failures{recent: f.recent}
	}
	kept := f.recent[:0]
	for _, t := range f.recent {
		if now.Sub(t) < cfg.CrashLoopWindow {
			kept = append(kept, t)
		}
	}
	f.recent = append(kept, now)
	if len(f.recent) >= cfg.CrashLoopFailures {
		f.loop = true
		f.recent = f.recent[1:] // keep as many as the next decision needs
	}
	pause = backoff(f.inRow, cfg.BackoffMin, cfg.BackoffMax)
	if f.loop {
		pause = jittered(cfg.BackoffMax)
	}
	f.inRow++
	return pause
}

// backoff returns the pause before restart n (from 0), with jitter.
func backoff(n int, least, most time.Duration) time.Duration {
	d := most
	if n < 20 {
		d = min(most, least<<n)
	}
	return jittered(d)
}

// jittered subtracts up to a quarter at random, so that simultaneous failures on many
// machines do not restart together.
func jittered(d time.Duration) time.Duration { return d - time.Duration(rand.Int64N(int64(d)/4+1)) }

// bell wakes one waiter. A ring without a waiter is kept for the next one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// hush drops an earlier ring.
func (b bell) hush() {
	select {
	case <-b:
	default:
	}
}
