// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost/feed"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
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
	// Tasks are the tasks that run. Values of other tasks are of tasks that have ended.
	Tasks []stats.Task
}

// Collectors holds all collectors that plugins serve. They have no fingerprints, and
// need a process only while somebody wants their samples.
type Collectors struct {
	kind[stats.Backend, struct{}, *collectorSlot]
	cfg Config
}

// samplePair holds the two newest samples of a collector.
type samplePair struct{ now, before *stats.Sample }

// collectorSlot is the slot of one collector.
type collectorSlot struct {
	plain[stats.Backend, struct{}]
	name    string
	plugin  string
	from    origin        // origin of the process that served it last
	info    stats.Info    // without a name while a version is being tried
	backend stats.Backend // nil while no process serves it
	away    error         // why no process serves it
	resting bool          // it has no process because it has no readers; the host can start one
	feed    *feed.Feed[stats.Sample, samplePair]

	telling sync.Mutex    // is held during a call of SetTasks
	told    []stats.Task  // the list of tasks that toldTo got last
	toldTo  stats.Backend // nil: no process has a list of tasks yet
}

func newCollectors(cfg Config) *Collectors {
	c := &Collectors{cfg: cfg}
	c.kind = newKind(cfg, spec[stats.Backend, struct{}, *collectorSlot]{
		noun: "collector", contracts: []plugin.Kind{stats.KindV1},
		connect: func(ctx context.Context, p *process.Process) ([]stats.Backend, error) {
			return stats.ConnectV1(ctx, p.Conn)
		},
		about: func(b stats.Backend) (string, schema.Schema) {
			info := b.Info()
			return info.Name, info.ConfigSchema
		},
		slot: c.newSlot,
		show: func(into *Served, all []stats.Backend) { into.Collectors = all },
	})
	return c
}

func (c *Collectors) newSlot(b stats.Backend, plugin string) *collectorSlot {
	s := &collectorSlot{name: b.Info().Name, plugin: plugin}
	s.away = errdefs.Unavailablef("collector %q: its plugin does not run yet", s.name)
	s.feed = feed.New(feed.Config[stats.Sample, samplePair]{
		Name: fmt.Sprintf("collector %q", s.name), Interval: c.cfg.StatsInterval, Keep: true, Logger: c.log,
		Open: func(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
			return c.collect(ctx, s, interval)
		},
		Take: func(before samplePair, got stats.Sample) samplePair { return samplePair{now: &got, before: before.now} },
	})
	return s
}

// collect opens a stream in the process that currently serves the collector. It starts
// a resting plugin and waits for it.
func (c *Collectors) collect(ctx context.Context, s *collectorSlot, interval time.Duration) (<-chan stats.Sample, error) {
	ready, cancel := context.WithTimeout(ctx, feed.Wait)
	defer cancel()
	for {
		c.mu.Lock()
		backend, away, resting, changed := s.backend, s.away, s.resting, c.changed
		c.mu.Unlock()
		if backend != nil {
			if err := c.tell(ready, s, backend, c.tasks()); err != nil {
				return nil, err
			}
			return backend.Collect(ctx, interval)
		}
		if !resting {
			return nil, away
		}
		c.cfg.Demand(s.plugin)
		select {
		case <-changed:
		case <-ready.Done():
			return nil, away
		}
	}
}

// tasks returns the running tasks, sorted.
func (c *Collectors) tasks() []stats.Task {
	if c.cfg.Tasks == nil {
		return nil
	}
	out := c.cfg.Tasks()
	slices.SortFunc(out, func(a, b stats.Task) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// tell sends the list of running tasks to a collector that measures tasks, unless it has
// the list.
func (c *Collectors) tell(ctx context.Context, s *collectorSlot, b stats.Backend, tasks []stats.Task) error {
	if !stats.Has(b, stats.FeatureTasks) {
		return nil
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	if s.toldTo == b && slices.Equal(s.told, tasks) {
		return nil
	}
	if err := b.(stats.TaskCollector).SetTasks(ctx, tasks); err != nil {
		return fmt.Errorf("collector %q: send it the list of running tasks: %w", s.name, err)
	}
	s.told, s.toldTo = tasks, b
	return nil
}

// tellAll sends the list of running tasks to all collectors with an open stream.
func (c *Collectors) tellAll(ctx context.Context, tasks []stats.Task) {
	type known struct {
		slot    *collectorSlot
		backend stats.Backend
	}
	c.mu.Lock()
	var all []known
	for _, s := range c.slots() {
		if s.backend != nil && s.feed.Open() {
			all = append(all, known{s, s.backend})
		}
	}
	c.mu.Unlock()
	for _, k := range all {
		if err := c.tell(ctx, k.slot, k.backend, tasks); err != nil && ctx.Err() == nil {
			c.log.Warn("a collector did not get the list of running tasks; it gets the list again with the next reading", "error", err)
		}
	}
}

// Readings requests samples of every collector and waits briefly for new ones.
func (c *Collectors) Readings(ctx context.Context) []HostReading {
	ctx, cancel := context.WithTimeout(ctx, feed.Wait)
	defer cancel()
	tasks := c.tasks()
	c.tellAll(ctx, tasks)
	c.mu.Lock()
	out := make([]HostReading, 0, len(c.byName))
	var feeds []*feed.Feed[stats.Sample, samplePair]
	for _, s := range c.slots() {
		if s.info.Name == "" {
			continue
		}
		out = append(out, HostReading{Collector: s.name, Plugin: s.plugin, PluginVersion: s.from.version, Info: s.info, Tasks: tasks})
		feeds = append(feeds, s.feed)
		if !c.closed {
			s.feed.Want() // all at once; each is awaited below
		}
	}
	c.mu.Unlock()
	for i, f := range feeds {
		var pair samplePair
		pair, out[i].At, out[i].Problem = f.Get(ctx)
		out[i].Now, out[i].Before = pair.now, pair.before
	}
	return out
}

// try waits for one sample: each collector of a new version must deliver one.
func (s *collectorSlot) try(ready context.Context, b stats.Backend, _ func()) error {
	if err := probe(ready, b); err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("collector %q: %w", s.name, err))
	}
	return nil
}

// probe waits for one sample.
func probe(ctx context.Context, b stats.Backend) error {
	once, cancel := context.WithCancel(ctx)
	samples, err := b.Collect(once, time.Hour)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		for range samples { // to its end
		}
	}()
	select {
	case _, ok := <-samples:
		if !ok {
			return errdefs.Unavailablef("its samples ended before the first")
		}
		return nil
	case <-ctx.Done():
		return errdefs.DeadlineExceededf("no sample in time: %w", ctx.Err())
	}
}

func (s *collectorSlot) serves(b stats.Backend, from origin, problem error) {
	s.from, s.info, s.backend, s.away, s.resting = from, b.Info(), b, problem, false
	if problem != nil {
		s.backend = nil
	}
	s.feed.Retry()
}

// lost records why a process no longer serves the collector, unless another one
// already does.
func (s *collectorSlot) lost(b stats.Backend, reason error) {
	if s.backend != b {
		return
	}
	s.backend, s.resting = nil, errors.Is(reason, ErrResting)
	s.away = errdefs.Unavailablef("collector %q: its plugin does not run and is being restarted: %w", s.name, reason)
	if errors.Is(reason, context.Canceled) {
		s.away = errdefs.Unavailablef("collector %q: its plugin was ended", s.name)
	}
}

// idle reports whether there is no consumer of the samples.
func (s *collectorSlot) idle(stats.Backend, time.Time, time.Duration) (idle, onDemand bool) {
	return !s.feed.Open(), true
}

func (s *collectorSlot) release() (kept bool) {
	s.backend, s.resting = nil, false
	s.away = errdefs.Unavailablef("collector %q: no plugin serves it any more", s.name)
	return false
}

func (s *collectorSlot) close() { s.feed.Close() }
