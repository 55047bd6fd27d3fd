// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"context"
	"sync"
	"time"
)

// stalledPerLane is the number of stalled fetches per lane.
const stalledPerLane = 8

// lanes limits concurrent fetches: a few with progress, plus a limited number of
// stalled ones. So a source that hangs does not delay other artifacts.
type lanes struct {
	all    chan struct{}
	moving chan struct{}
	stall  time.Duration
}

func newLanes(n int, stall time.Duration) *lanes {
	n = max(1, n)
	return &lanes{all: make(chan struct{}, n*stalledPerLane), moving: make(chan struct{}, n), stall: stall}
}

// lane is the slot of one fetch.
type lane struct {
	of    *lanes
	timer *time.Timer
	once  sync.Once
	most  int64
}

// enter waits for a place; it fails only when ctx ends.
func (l *lanes) enter(ctx context.Context) (*lane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case l.all <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case l.moving <- struct{}{}:
	case <-ctx.Done():
		<-l.all
		return nil, ctx.Err()
	}
	out := &lane{of: l}
	if l.stall > 0 {
		out.timer = time.AfterFunc(l.stall, out.stalled)
	}
	return out, nil
}

// stalled releases the slot of a fetch that makes no progress, so that another may begin.
func (l *lane) stalled() { l.once.Do(func() { <-l.of.moving }) }

// watching wraps progress so that the lane learns of it. The result must not be called
// concurrently.
func (l *lane) watching(progress func(int64)) func(int64) {
	return func(n int64) {
		if n > l.most && l.timer != nil {
			l.most = n
			l.timer.Reset(l.of.stall)
		}
		if progress != nil {
			progress(n)
		}
	}
}

func (l *lane) leave() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.stalled()
	<-l.of.all
}
