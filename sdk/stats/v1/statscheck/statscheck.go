// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package statscheck holds the rules of sdk/stats/v1 as named checks that can run
// against any collector. It owns the checks and does not link package testing. Only
// statstest, for authors' tests, and core/pluginhost/plugincheck, for `drover plugin
// check`, import it.
package statscheck

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	stats "github.com/drover-project/drover/sdk/stats/v1"
)

// Subject is the collector under test.
type Subject struct {
	// Connect returns the collector as a freshly started process offers it. die kills
	// the process, or what simulates it, without a shutdown.
	Connect func(*conformance.T) (c stats.Collector, die func())
	// Config is the agent config; nil means empty.
	Config map[string]any
	// Timeout bounds each check; 0 means 2 min.
	Timeout time.Duration
	// Interval is the interval at which the checks make it measure; 0 means 50 ms.
	Interval time.Duration
	// InProcess is true if the collector runs in this process, where checks can see
	// leaked goroutines and read its channel without a connection in between.
	InProcess bool
}

// Check is one rule of the contract.
type Check struct {
	Name string // short identifier; never changes between versions
	Rule string // the rule in words
	// needs reports whether the rule applies to a plugin, from its features; nil means that
	// it applies to all.
	needs func(stats.Collector) bool
	run   func(*bench)
}

// Checks returns all checks.
func Checks() []Check { return append([]Check(nil), checks...) }

// Run runs the check against the subject.
func (c Check) Run(ctx context.Context, s Subject) conformance.Result {
	if s.Timeout == 0 {
		s.Timeout = 2 * time.Minute
	}
	if s.Interval == 0 {
		s.Interval = 50 * time.Millisecond
	}
	return conformance.Run(ctx, c.Name, c.Rule, s.Timeout, func(t *conformance.T) {
		b := &bench{t: t, ctx: t.Context(), subject: s}
		b.open()
		if c.needs != nil && !c.needs(b.c) {
			t.Skipf("the plugin does not announce this ability")
		}
		c.run(b)
	})
}

// bench is the state of one running check.
type bench struct {
	t       *conformance.T
	ctx     context.Context
	subject Subject
	c       stats.Collector
	die     func()
	config  []byte
}

// open connects to a fresh collector and configures it, as the host does.
func (b *bench) open() {
	b.c, b.die = b.subject.Connect(b.t)
	b.config = conformance.Configure(b.t, b.c.Info().ConfigSchema, b.subject.Config, b.c.SetConfig)
}

// collect opens a stream.
func (b *bench) collect(ctx context.Context, interval time.Duration) <-chan stats.Sample {
	samples, err := b.c.Collect(ctx, interval)
	if err != nil {
		b.t.Fatalf("Collect: %v", err)
	}
	return samples
}

// next returns the stream's next sample.
func (b *bench) next(samples <-chan stats.Sample) stats.Sample {
	s, open := conformance.Receive(b.t, samples, "a sample")
	if !open {
		b.t.Fatalf("the stream ended before its context")
	}
	return s
}

// two returns two consecutive samples of one stream.
func (b *bench) two() (first, second stats.Sample) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples := b.collect(ctx, b.subject.Interval)
	first, second = b.next(samples), b.next(samples)
	cancel()
	conformance.Ended(b.t, samples, "the samples")
	return first, second
}
