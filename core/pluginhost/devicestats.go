// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/core/pluginhost/device"
	"github.com/drover-project/drover/core/pluginhost/feed"
	"github.com/drover-project/drover/sdk/errdefs"
)

// deviceFeed follows the samples of one device plugin while there is a consumer.
type deviceFeed = feed.Feed[[]device.GroupStats, []device.GroupStats]

func (d *devices) newFeed(name string) *deviceFeed {
	return feed.New(feed.Config[[]device.GroupStats, []device.GroupStats]{
		Name: fmt.Sprintf("device plugin %q", name), Interval: d.interval, Logger: d.log,
		Open: func(ctx context.Context, interval time.Duration) (<-chan []device.GroupStats, error) {
			return d.measure(ctx, name, interval)
		},
		Take: func(_, got []device.GroupStats) []device.GroupStats { return got },
	})
}

// measure opens a stream of the process that serves the device plugin now.
func (d *devices) measure(ctx context.Context, name string, interval time.Duration) (<-chan []device.GroupStats, error) {
	d.mu.Lock()
	var backend device.Backend
	if e := d.byName[name]; e != nil {
		backend = e.backend
	}
	d.mu.Unlock()
	if backend == nil {
		return nil, errdefs.Unavailablef("device plugin %q: no process serves it now", name)
	}
	return backend.Stats(ctx, interval)
}

// stats requests samples of every device plugin and waits briefly for new ones. It
// leaves out outdated samples.
func (d *devices) stats(ctx context.Context) []device.GroupStats {
	ctx, cancel := context.WithTimeout(ctx, feed.Wait)
	defer cancel()
	d.mu.Lock()
	var feeds []*deviceFeed
	for _, e := range d.byName {
		if e.backend != nil {
			feeds = append(feeds, e.feed)
			e.feed.Want() // all at once; each is waited for below
		}
	}
	d.mu.Unlock()
	var out []device.GroupStats
	for _, f := range feeds {
		if groups, _, err := f.Get(ctx); err == nil {
			out = append(out, groups...)
		}
	}
	slices.SortFunc(out, func(a, b device.GroupStats) int {
		return slices.Compare([]string{a.Vendor, a.Type, a.Name}, []string{b.Vendor, b.Type, b.Name})
	})
	return out
}

func (d *devices) close() {
	d.mu.Lock()
	var feeds []*deviceFeed
	for _, e := range d.byName {
		feeds = append(feeds, e.feed)
	}
	d.mu.Unlock()
	for _, f := range feeds { // they may be asking for d.mu
		f.Close()
	}
}
