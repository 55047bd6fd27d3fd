// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package telemetry

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/panics"
)

// Config configures a Registry.
type Config struct {
	Interval time.Duration     // interval between two sets for the sinks; default 1 s
	Filter   *Filter           // nil allows all
	Labels   map[string]string // labels of the registry's own metrics
	Logger   hclog.Logger
}

// collectLimit is the time limit of all sources together, publishLimit of one Publish.
const (
	collectLimit = 2 * time.Second
	publishLimit = 10 * time.Second
)

// Registry connects sources to sinks.
type Registry struct {
	cfg Config

	mu      sync.Mutex
	sources []Source
	outlets []*outlet
}

// New creates a registry without sources and sinks.
func New(cfg Config) *Registry {
	if cfg.Interval <= 0 {
		cfg.Interval = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Registry{cfg: cfg}
}

// Add adds a source.
func (r *Registry) Add(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, s)
}

// Attach adds a sink; Run feeds it. It must be called before Run.
func (r *Registry) Attach(name string, s Sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outlets = append(r.outlets, &outlet{name: name, sink: s, log: r.cfg.Logger, next: make(chan *Set, 1)})
}

// Collect collects samples from all sources now. If several sources report the same
// name, the one that was added first is used.
func (r *Registry) Collect(ctx context.Context) *Set {
	ctx, cancel := context.WithTimeout(ctx, collectLimit)
	defer cancel()
	r.mu.Lock()
	sources, outlets := slices.Clone(r.sources), slices.Clone(r.outlets)
	r.mu.Unlock()
	set := &Set{Time: time.Now()}
	from := map[string]int{} // by name, its source: duplicates are an error for scrapers
	keep := func(source int, list []Sample) {
		for _, s := range list {
			first, told := from[s.Name]
			if !told {
				from[s.Name], first = source, source
			}
			if first == source && r.cfg.Filter.Allows(s.Name) {
				set.Samples = append(set.Samples, s)
			}
		}
	}
	for i, source := range sources {
		// A source that panics reports nothing this time.
		if p := panics.Catch(func() { keep(i, source(ctx)) }); p != nil {
			r.cfg.Logger.Error("a source of metrics panicked; this is a defect of drover", p.Fields()...)
		}
	}
	for _, o := range outlets {
		keep(len(sources), o.samples(r.cfg.Labels))
	}
	slices.SortStableFunc(set.Samples, func(a, b Sample) int { return strings.Compare(a.Name, b.Name) })
	return set
}

// Run feeds the sinks until ctx ends, and then closes them. It returns at once if
// there are no sinks.
func (r *Registry) Run(ctx context.Context) {
	r.mu.Lock()
	outlets := slices.Clone(r.outlets)
	r.mu.Unlock()
	if len(outlets) == 0 {
		return
	}
	var work sync.WaitGroup
	defer work.Wait()
	for _, o := range outlets {
		work.Go(func() { o.run(ctx) })
	}
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		set := r.Collect(ctx)
		for _, o := range outlets {
			o.offer(set)
		}
	}
}

// outlet feeds one sink.
type outlet struct {
	name    string
	sink    Sink
	log     hclog.Logger
	next    chan *Set
	busy    atomic.Bool
	dropped atomic.Uint64
	failed  atomic.Uint64
}

// offer passes a set to the sink if it has finished the previous one.
func (o *outlet) offer(set *Set) {
	if !o.busy.CompareAndSwap(false, true) {
		o.dropped.Add(1)
		return
	}
	o.next <- set // does not block: only an idle outlet gets a set
}

func (o *outlet) run(ctx context.Context) {
	defer func() {
		if err := o.sink.Close(); err != nil {
			o.log.Warn("a telemetry sink could not be closed", "sink", o.name, "error", err)
		}
	}()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case set := <-o.next:
			failing = o.publish(ctx, set, failing)
			o.busy.Store(false)
		}
	}
}

// publish publishes a set and reports whether the sink now fails.
func (o *outlet) publish(ctx context.Context, set *Set, failing bool) bool {
	limited, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	err := o.sink.Publish(limited, set)
	switch {
	case err != nil && ctx.Err() != nil:
		return failing // the shutdown of the agent is not an error of the sink
	case err != nil:
		o.failed.Add(1)
		if !failing {
			o.log.Warn("metrics do not reach a telemetry sink; it is tried again each interval", "sink", o.name, "error", err)
		}
	case failing:
		o.log.Info("metrics reach the telemetry sink again", "sink", o.name)
	}
	return err != nil
}

func (o *outlet) samples(labels map[string]string) []Sample {
	of := map[string]string{"sink": o.name}
	for k, v := range labels {
		of[k] = v
	}
	return []Sample{
		{Name: "drover.telemetry.dropped_sets", Kind: Counter, Labels: of, Value: float64(o.dropped.Load())},
		{Name: "drover.telemetry.failed_sets", Kind: Counter, Labels: of, Value: float64(o.failed.Load())},
	}
}
