// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stats is what a node knows of the use of its resources: by each task, as
// drivers tell, and of the machine, as collectors tell. It owns the one collection
// of a node (a stream for all tasks of a driver, open only while somebody wants to
// know), the forms of /v1/client/stats and of an alloc's stats, and the node's
// metrics. It does not own processes of plugins, nor allocs. Only core/agent
// imports it.
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

// Tasks has the newest sample of each task. What ends is not in the next sample,
// and a driver that nobody asks for any more is forgotten with all its samples.
type Tasks struct {
	interval  time.Duration
	log       hclog.Logger
	onRestart func(driver string, f func()) (stop func())

	mu     sync.Mutex
	feeds  map[string]*taskFeed // by driver
	stops  []func()
	closed bool
}

// NewTasks makes a collection. onRestart has a function called when a new process
// serves a driver; it may be nil.
func NewTasks(interval time.Duration, onRestart func(string, func()) func(), log hclog.Logger) *Tasks {
	return &Tasks{interval: interval, log: log, onRestart: onRestart, feeds: map[string]*taskFeed{}}
}

// Close ends it.
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

// feed returns that of a driver, nil once the collection is closed.
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
	s, ok := newest[taskID] // however old: it has its time
	return s, ok
}

// Now returns the samples of a driver's tasks by id, as far as they are of now,
// and does not wait. It must not be changed.
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
