// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package telemetry passes an agent's metrics to sinks. It owns the form of a metric
// (Sample), the configured filter, the Recorder of counters and timings, and the loop
// that passes a set of samples to every sink at each interval. It does not own the
// measurements (the sources do: state, the node, the process), the protocols of sinks,
// or /v1/metrics, which belongs to core/api. Sources and cmd/drover/daemon import it.
//
// # Writing a sink
//
// A sink sends metrics to a system such as statsd. It is a type with Publish and Close
// (see Sink), in a package of its own below core/telemetry, and is attached with one
// line where the daemon builds its registry:
//
//	registry.Attach("statsd", sink)
//
// Run then collects a set every collection_interval and passes it to each sink, in a
// goroutine per sink. A set is complete: it contains every sample that passed the
// filter, sorted by name. It is never changed afterwards, so sinks share it without
// copying. A gauge is the current value. A counter is the sum since the process
// started: a protocol that needs differences stores the previous value, by Sample.Key.
// A histogram is the sums of its buckets since then. A summary has its sum and count since
// then, and in Recent the values of the recorder's newest interval.
//
// A slow sink delays no other: a set that arrives while Publish is still running is
// dropped for that sink and counted as drover.telemetry.dropped_sets. An error of
// Publish is logged when it first occurs and when it ends, not at every interval.
// Without a sink, metrics are collected only for requests of /v1/metrics.
package telemetry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind says how the value of a sample is interpreted.
type Kind uint8

// The kinds.
const (
	Gauge     Kind = iota // the current value
	Counter               // a sum that only grows during the life of the process
	Summary               // many observations
	Histogram             // many observations, counted by their size
)

// Sample is the value of one metric at one time. It is immutable once returned;
// samples may share their labels.
type Sample struct {
	Name   string // "nomad.client.allocs.cpu.user"
	Kind   Kind
	Labels map[string]string
	// Value is the value of a gauge, the sum of a counter, or the sum of the observations
	// of a summary or histogram. All but the first count since the process started.
	Value float64
	// Count is the number of observations of a summary or histogram since the process
	// started.
	Count uint64
	// Buckets are the buckets of a histogram; nil for other kinds.
	Buckets *Buckets
	// Recent has the values of a counter or summary in the recorder's newest complete
	// interval, or the sum of a counter that a source maintains itself; nil if there
	// are none.
	Recent *Aggregate
}

// Buckets counts observations by their size. Counts has one count for each bound, of what is
// not above it and above the bound before, and a last one of what is above all bounds.
type Buckets struct {
	Bounds []float64 // ascending
	Counts []uint64
}

// Aggregate summarizes the observations of one interval.
type Aggregate struct {
	Count                       int
	Rate                        float64 // rate of the sum, per second
	Sum, Min, Max, Mean, Stddev float64
}

// Key identifies the series of a sample: its name and labels.
func (s *Sample) Key() string { return seriesKey(s.Name, s.Labels) }

func seriesKey(name string, labels map[string]string) string {
	if len(labels) == 0 {
		return name
	}
	var b strings.Builder
	b.WriteString(name)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b.WriteByte(0)
		b.WriteString(k)
		b.WriteByte(0)
		b.WriteString(labels[k])
	}
	return b.String()
}

// Set contains all samples of one moment, sorted by name.
type Set struct {
	Time    time.Time
	Samples []Sample
}

// Source returns current samples. It respects ctx and leaves out what it cannot
// measure.
type Source func(ctx context.Context) []Sample

// Sink receives the sets.
type Sink interface {
	// Publish sends one set. It is called by one goroutine at a time, once each
	// interval; ctx ends after a limit that the registry sets.
	Publish(ctx context.Context, set *Set) error
	// Close sends remaining data and frees resources. It is called once, after the
	// last Publish.
	Close() error
}
