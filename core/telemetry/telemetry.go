// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package telemetry brings what an agent measures to whoever wants it. It owns
// the form of a metric (Sample), the filter of the configuration, the record of
// what is counted as it happens (Recorder), and the loop that hands a set of
// samples to every sink each interval. It does not own what is measured (the
// sources are: state, the node, the process) nor any protocol of a sink, nor
// /v1/metrics, which is core/api's. Sources and cmd/drover/daemon import it.
//
// # How a sink plugs in
//
// A sink pushes metrics to a system such as statsd. It is a type with Publish and
// Close (see Sink), in a package of its own below core/telemetry, and plugs in with
// one line where the daemon builds its registry:
//
//	registry.Attach("statsd", sink)
//
// From then on Run collects a set every collection_interval and hands it to each
// sink in a goroutine of the sink's own. A set is complete: every sample that
// passed the filter, ordered by name and never changed afterwards, so sinks share
// it and need no copy. A gauge is the value now. A counter is the sum since the
// process began: a protocol that wants increments keeps the value of the set
// before, by Sample.Key. A summary has sum and count since then, and in Recent
// what the newest interval of the recorder saw.
//
// A sink that is slow delays nobody: a set that comes while Publish still runs is
// dropped for that sink and counted as drover.telemetry.dropped_sets. An error of
// Publish is logged when it begins and when it ends, not at every interval.
// Without a sink nothing is collected but what /v1/metrics asks for.
package telemetry

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind says how the value of a sample is to be read.
type Kind uint8

// The kinds.
const (
	Gauge   Kind = iota // the value now
	Counter             // a sum that only grows while the process lives
	Summary             // many observations
)

// Sample is one metric at one time. It is not changed once it is handed out;
// samples may share their labels.
type Sample struct {
	Name   string // "nomad.client.allocs.cpu.user"
	Kind   Kind
	Labels map[string]string
	// Value is a gauge's value, a counter's sum or the sum of a summary's
	// observations, the two latter since the process began.
	Value float64
	// Count is how many observations a summary has had since the process began.
	Count uint64
	// Recent is what the newest finished interval of the recorder saw of a
	// counter or a summary, or the sum of a counter that a source keeps by itself;
	// nil if nothing.
	Recent *Aggregate
}

// Aggregate describes the observations of one interval.
type Aggregate struct {
	Count                       int
	Rate                        float64 // of the sum, per second
	Sum, Min, Max, Mean, Stddev float64
}

// Key identifies the series that a sample belongs to: its name and its labels.
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

// Set is all samples of one moment, ordered by name.
type Set struct {
	Time    time.Time
	Samples []Sample
}

// Source measures something when it is asked to. It keeps to ctx and leaves out
// what it cannot say.
type Source func(ctx context.Context) []Sample

// Sink takes the sets.
type Sink interface {
	// Publish sends one set. It is called by one goroutine at a time, once each
	// interval; ctx ends after a limit that the registry sets.
	Publish(ctx context.Context, set *Set) error
	// Close sends what is left and frees what the sink holds. It is called once,
	// after the last Publish.
	Close() error
}
