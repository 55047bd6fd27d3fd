// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"math/rand/v2"
	"time"
)

// failures is what decides when a plugin that has failed is started again.
type failures struct {
	inRow  int         // since a process was steady
	recent []time.Time // those within the window
	loop   bool        // a crash loop
}

// add notes that a process that began at begin has failed now, and returns the
// pause until the next one.
func (f *failures) add(begin, now time.Time, cfg *Config) (pause time.Duration) {
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
		f.recent = f.recent[1:] // as many as decide the next time
	}
	pause = backoff(f.inRow, cfg.BackoffMin, cfg.BackoffMax)
	if f.loop {
		pause = jittered(cfg.BackoffMax)
	}
	f.inRow++
	return pause
}

// backoff is the pause before restart n (from 0), with jitter.
func backoff(n int, least, most time.Duration) time.Duration {
	d := most
	if n < 20 {
		d = min(most, least<<n)
	}
	return jittered(d)
}

// jittered takes up to a quarter off, so that what failed together on many
// machines does not come back together.
func jittered(d time.Duration) time.Duration { return d - time.Duration(rand.Int64N(int64(d)/4+1)) }

// bell wakes one sleeper; a ring that nobody waits for is kept.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// hush forgets a ring of before.
func (b bell) hush() {
	select {
	case <-b:
	default:
	}
}
