// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package quota

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Watched is a directory whose use is looked at.
type Watched interface {
	// Disk returns the directory; "" if it is of no interest any more.
	Disk() string
	// NoteDisk gets what the directory takes now.
	NoteDisk(u Usage)
}

// Config is what a Watch needs. Zero durations and rates are the defaults.
type Config struct {
	List func() []Watched
	// Every is how often directories with limits are looked at, which costs next to nothing;
	// default 10 s.
	Every time.Duration
	// Again is the least time between two measurements of a directory without a limit;
	// default 1 min.
	Again time.Duration
	// Entries is how many files a node looks at in a second to measure directories without
	// limits, all of them together; default 2,000.
	Entries int
}

// Watch looks at directories until its Run ends.
type Watch struct {
	cfg      Config
	budget   *rate.Limiter
	measured map[string]time.Time // when directories without a limit were measured last
}

// burst is how many files are looked at without a pause.
const burst = 200

// NewWatch returns a watch.
func NewWatch(cfg Config) *Watch {
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.Again == 0 {
		cfg.Again = time.Minute
	}
	if cfg.Entries == 0 {
		cfg.Entries = 2000
	}
	return &Watch{cfg: cfg, budget: rate.NewLimiter(rate.Limit(cfg.Entries), burst), measured: map[string]time.Time{}}
}

// Run looks at the directories until ctx ends. Those without limits are measured beside the
// others, which have not to wait for them.
func (w *Watch) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { w.each(ctx, w.look) })
	work.Go(func() { w.each(ctx, w.walk) })
	work.Wait()
}

func (w *Watch) each(ctx context.Context, do func(context.Context)) {
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks the file system for those that it limits.
func (w *Watch) look(context.Context) {
	for _, one := range w.cfg.List() {
		if dir := one.Disk(); dir != "" {
			if u, ok := Measure(dir); ok {
				one.NoteDisk(u)
			}
		}
	}
}

// walk measures those without a limit, one after the other.
func (w *Watch) walk(ctx context.Context) {
	before := w.measured
	w.measured = map[string]time.Time{}
	for _, one := range w.cfg.List() {
		dir := one.Disk()
		if dir == "" {
			continue
		}
		if at, ok := before[dir]; ok && time.Since(at) < w.cfg.Again {
			w.measured[dir] = at
			continue
		}
		if _, limited := Measure(dir); limited {
			continue
		}
		bytes, err := sizeOf(ctx, dir, w.budget)
		if ctx.Err() != nil {
			return
		}
		if err != nil { // it is not there yet, or no more
			continue
		}
		w.measured[dir] = time.Now()
		one.NoteDisk(Usage{Bytes: bytes})
	}
}
