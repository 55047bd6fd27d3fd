// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"context"
	"sync"
	"time"
)

// stalledPerLane bounds the fetches that wait for a stuck source, for each that
// may make progress.
const stalledPerLane = 8

// lanes bound the fetches at once: few that make progress, and in all not many
// more that are stuck. So a source that hangs holds up nobody else's artifacts.
type lanes struct {
	all    chan struct{}
	moving chan struct{}
	stall  time.Duration
}

func newLanes(n int, stall time.Duration) *lanes {
	n = max(1, n)
	return &lanes{all: make(chan struct{}, n*stalledPerLane), moving: make(chan struct{}, n), stall: stall}
}

// lane is the place of one fetch.
type lane struct {
	of    *lanes
	timer *time.Timer
	once  sync.Once
	most  int64
}

// enter waits for a place; the error is that of ctx.
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

// stalled lets another fetch move.
func (l *lane) stalled() { l.once.Do(func() { <-l.of.moving }) }

// watching tells the lane of progress. It is called by one goroutine at a time.
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
