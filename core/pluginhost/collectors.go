// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/feed"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/sdk/errdefs"
)

// HostReading contains the samples of one collector. Now and Before are its two newest
// samples, nil if there are none; At is the time of Now. Problem says why Now is not
// current, for example because the plugin is away; the samples can still be read.
type HostReading struct {
	Collector     string
	Plugin        string
	PluginVersion string
	Info          stats.Info
	Now, Before   *stats.Sample
	At            time.Time
	Problem       error
}

// collectors holds all collectors that plugins serve.
type collectors struct {
	log      hclog.Logger
	interval time.Duration
	demand   func(plugin string) // requests a process for a resting plugin

	mu     sync.Mutex
	byName map[string]*collectorEntry
	served chan struct{} // closed and replaced when a process serves a collector
	closed bool
}

// samplePair holds the two newest samples of a collector.
type samplePair struct{ now, before *stats.Sample }

// collectorEntry is the entry of one collector name. The name belongs to the plugin
// that served it first.
type collectorEntry struct {
	plugin, version string
	info            stats.Info    // without a name while a version is being tried
	backend         stats.Backend // nil while no process serves it
	away            error         // why no process serves it
	resting         bool          // it has no process because nobody wanted it; one can be started
	feed            *feed.Feed[stats.Sample, samplePair]
}

func newCollectors(interval time.Duration, log hclog.Logger, demand func(plugin string)) *collectors {
	return &collectors{log: log, interval: interval, demand: demand, byName: map[string]*collectorEntry{}, served: make(chan struct{})}
}

func (c *collectors) close() {
	c.mu.Lock()
	c.closed = true
	entries := make([]*collectorEntry, 0, len(c.byName))
	for _, e := range c.byName {
		entries = append(entries, e)
	}
	c.mu.Unlock()
	for _, e := range entries {
		e.feed.Close()
	}
}

// collectorSession holds the collectors of one process.
type collectorSession struct {
	collectors *collectors
	plugin     string
	version    string
	backends   []stats.Backend
}

func (c *collectors) attach(ctx context.Context, pluginName string, p *process.Process) (*collectorSession, error) {
	backends, err := stats.ConnectV1(ctx, p.Conn)
	if err != nil {
		return nil, errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s: %w", p.File.Path, err))
	}
	for _, b := range backends {
		if err := c.claim(b.Info(), pluginName, p); err != nil {
			return nil, err
		}
	}
	return &collectorSession{collectors: c, plugin: pluginName, version: p.Info.Version, backends: backends}, nil
}

// claim reserves the name for the plugin.
func (c *collectors) claim(info stats.Info, pluginName string, p *process.Process) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[info.Name]
	if e == nil {
		e = &collectorEntry{plugin: pluginName, away: errdefs.Unavailablef("collector %q: its plugin does not run yet", info.Name)}
		e.feed = feed.New(feed.Config[stats.Sample, samplePair]{
			Name: fmt.Sprintf("collector %q", info.Name), Interval: c.interval, Keep: true, Logger: c.log,
			Open: func(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
				return c.collect(ctx, info.Name, interval)
			},
			Take: func(before samplePair, got stats.Sample) samplePair { return samplePair{now: &got, before: before.now} },
		})
		c.byName[info.Name] = e
	}
	if e.plugin != pluginName {
		return errdefs.AlreadyExistsf("plugin %s: serves the collector %q, which plugin %q serves already; remove one of the two", p.File.Path, info.Name, e.plugin)
	}
	return nil
}

// collect opens a stream in the process that currently serves the collector. It starts
// a resting plugin and waits for it.
func (c *collectors) collect(ctx context.Context, name string, interval time.Duration) (<-chan stats.Sample, error) {
	ready, cancel := context.WithTimeout(ctx, feed.Wait)
	defer cancel()
	for {
		now, served := c.entry(name)
		if now.backend != nil {
			return now.backend.Collect(ctx, interval)
		}
		if !now.resting {
			return nil, now.away
		}
		c.demand(now.plugin)
		select {
		case <-served:
		case <-ready.Done():
			return nil, now.away
		}
	}
}

// entry returns the current entry of a collector.
func (c *collectors) entry(name string) (now collectorEntry, served <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byName[name]; e != nil {
		return *e, c.served
	}
	return collectorEntry{away: errdefs.Unavailablef("collector %q: no plugin serves it any more", name)}, c.served
}

// wanted reports whether a collector has a consumer.
func (c *collectors) wanted(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[name]
	return e != nil && e.feed.Open()
}

func (s *collectorSession) open(ctx context.Context, configs map[string]map[string]any) {
	for _, b := range s.backends {
		name := b.Info().Name
		err := configureBlock(ctx, name, b.Info().ConfigSchema, configOf(configs, name, s.plugin), b.SetConfig)
		if err != nil {
			s.collectors.log.Error("collector cannot be used as it is configured", "collector", name, "error", err)
		}
		s.serve(b, err)
	}
}

// serve records that the process serves a collector, or why it does not.
func (s *collectorSession) serve(b stats.Backend, away error) {
	info := b.Info()
	s.collectors.mu.Lock()
	e := s.collectors.byName[info.Name]
	e.version, e.info, e.backend, e.away, e.resting = s.version, info, b, away, false
	if away != nil {
		e.backend = nil
	}
	close(s.collectors.served)
	s.collectors.served = make(chan struct{})
	s.collectors.mu.Unlock()
	e.feed.Retry()
}

// lost records why a process no longer serves a collector, unless another one already
// does.
func (c *collectors) lost(name string, b stats.Backend, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byName[name]; e != nil && e.backend == b {
		e.backend, e.away, e.resting = nil, why, errors.Is(why, errResting)
	}
}

func (s *collectorSession) names() []string {
	var out []string
	for _, b := range s.backends {
		out = append(out, b.Info().Name)
	}
	return out
}

func (s *collectorSession) detach(reason error) {
	for _, b := range s.backends {
		name := b.Info().Name
		why := errdefs.Unavailablef("collector %q: its plugin does not run and is being restarted: %w", name, reason)
		if errors.Is(reason, context.Canceled) {
			why = errdefs.Unavailablef("collector %q: its plugin was ended", name)
		}
		s.collectors.lost(name, b, why)
	}
}

// readings requests samples of every collector and waits briefly for new ones.
func (c *collectors) readings(ctx context.Context) []HostReading {
	ctx, cancel := context.WithTimeout(ctx, feed.Wait)
	defer cancel()
	c.mu.Lock()
	out := make([]HostReading, 0, len(c.byName))
	feeds := make(map[string]*feed.Feed[stats.Sample, samplePair], len(c.byName))
	for name, e := range c.byName {
		if e.info.Name == "" {
			continue
		}
		out = append(out, HostReading{Collector: name, Plugin: e.plugin, PluginVersion: e.version, Info: e.info})
		feeds[name] = e.feed
		if !c.closed {
			e.feed.Want() // all at once; each is awaited below
		}
	}
	c.mu.Unlock()
	slices.SortFunc(out, func(a, b HostReading) int { return strings.Compare(a.Collector, b.Collector) })
	for i := range out {
		var pair samplePair
		pair, out[i].At, out[i].Problem = feeds[out[i].Collector].Get(ctx)
		out[i].Now, out[i].Before = pair.now, pair.before
	}
	return out
}
