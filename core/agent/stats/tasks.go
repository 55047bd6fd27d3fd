// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stats owns a node's knowledge of resource usage: of each task, as drivers
// report it, and of the machine, as collectors report it. It owns the node's
// collection (one stream per driver for all its tasks, open only while there is a
// consumer), the JSON forms of /v1/client/stats and of an alloc's stats, and the
// node's metrics. It does not own plugin processes or allocs. Only core/agent imports
// it.
package stats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/feed"
)

// taskFeed is the newest sample of each task of a driver.
type taskFeed = feed.Feed[[]driver.TaskStats, map[string]driver.TaskStats]

// Tasks holds the newest sample of each task. A task that has ended is not in the next
// sample. A driver without consumers is dropped with all its samples.
type Tasks struct {
	interval  time.Duration
	log       hclog.Logger
	onRestart func(driver string, f func()) (stop func())

	mu     sync.Mutex
	feeds  map[string]*taskFeed // by driver
	stops  []func()
	closed bool
}

// NewTasks creates a collection. onRestart registers a function that is called when a
// new process serves a driver; it may be nil.
func NewTasks(interval time.Duration, onRestart func(string, func()) func(), log hclog.Logger) *Tasks {
	return &Tasks{interval: interval, log: log, onRestart: onRestart, feeds: map[string]*taskFeed{}}
}

// Close closes all feeds. Later calls find no samples.
func (t *Tasks) Close() {
	t.mu.Lock()
	t.closed = true
	feeds, stops := t.feeds, t.stops
	t.feeds, t.stops = nil, nil
	t.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	for _, f := range feeds {
		f.Close()
	}
}

// feed returns the feed of a driver, or nil once the collection is closed.
func (t *Tasks) feed(d driver.Driver) *taskFeed {
	name := d.Info().Name
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.feeds[name]; f != nil || t.closed {
		return f
	}
	f := feed.New(feed.Config[[]driver.TaskStats, map[string]driver.TaskStats]{
		Name: fmt.Sprintf("tasks of driver %q", name), Interval: t.interval, Logger: t.log, Open: d.TaskStats, Take: byID,
	})
	t.feeds[name] = f
	if t.onRestart != nil {
		t.stops = append(t.stops, t.onRestart(name, f.Retry))
	}
	return f
}

func byID(_ map[string]driver.TaskStats, batch []driver.TaskStats) map[string]driver.TaskStats {
	out := make(map[string]driver.TaskStats, len(batch))
	for _, s := range batch {
		out[s.TaskID] = s
	}
	return out
}

// Get returns the newest sample of a task, and waits a little for a first one.
func (t *Tasks) Get(ctx context.Context, d driver.Driver, taskID string) (driver.TaskStats, bool) {
	f := t.feed(d)
	if f == nil {
		return driver.TaskStats{}, false
	}
	newest, _, _ := f.GetWith(ctx, func(m map[string]driver.TaskStats) bool { _, ok := m[taskID]; return ok })
	s, ok := newest[taskID] // possibly old; it has a timestamp
	return s, ok
}

// Now returns the current samples of a driver's tasks by id, without waiting. The
// result must not be changed.
func (t *Tasks) Now(d driver.Driver) map[string]driver.TaskStats {
	f := t.feed(d)
	if f == nil {
		return nil
	}
	f.Want()
	if newest, _, err := f.Last(); err == nil {
		return newest
	}
	return nil
}
