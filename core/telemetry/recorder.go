// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
)

// maxSeries limits the number of series, since their labels come from jobs and must
// not exhaust the memory.
const maxSeries = 10_000

// Recorder stores counters and timings as they occur: totals since the process
// started, and the values of the newest interval. Libraries (raft) use it as the sink
// of go-metrics.
type Recorder struct {
	labels map[string]string
	recent *metrics.InmemSink

	mu     sync.Mutex
	series map[string]*Sample
}

var _ metrics.MetricSink = (*Recorder)(nil)

// NewRecorder creates a recorder whose samples have the labels. interval and keep are
// in_memory_collection_interval and in_memory_retention_period.
func NewRecorder(labels map[string]string, interval, keep time.Duration) *Recorder {
	return &Recorder{labels: labels, recent: metrics.NewInmemSink(interval, max(keep, 2*interval)), series: map[string]*Sample{}}
}

// Count adds to a counter.
func (r *Recorder) Count(name string, n float64, labels map[string]string) {
	r.record(name, Counter, labels, func(s *Sample) { s.Value += n })
	r.recent.IncrCounterWithLabels([]string{name}, float32(n), pairs(labels))
}

func pairs(labels map[string]string) []metrics.Label {
	out := make([]metrics.Label, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, metrics.Label{Name: k, Value: labels[k]})
	}
	return out
}

// record updates a series, and creates it if there is room.
func (r *Recorder) record(name string, kind Kind, labels map[string]string, change func(*Sample)) {
	key := seriesKey(name, labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.series[key]
	if s == nil {
		if len(r.series) >= maxSeries {
			return
		}
		all := maps.Clone(r.labels)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, labels)
		s = &Sample{Name: name, Kind: kind, Labels: all}
		r.series[key] = s
	}
	change(s)
}

// Samples implements Source.
func (r *Recorder) Samples(context.Context) []Sample {
	recent := r.newest()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Sample, 0, len(r.series))
	for key, s := range r.series {
		c := *s
		c.Recent = recent[key]
		out = append(out, c)
	}
	return out
}

// newest returns the values of the newer of the last two intervals that has any.
func (r *Recorder) newest() map[string]*Aggregate {
	out := map[string]*Aggregate{}
	intervals := r.recent.Data()
	for i := len(intervals) - 1; i >= 0 && i >= len(intervals)-2 && len(out) == 0; i-- {
		iv := intervals[i]
		iv.RLock()
		for _, group := range []map[string]metrics.SampledValue{iv.Counters, iv.Samples} {
			for _, v := range group {
				out[seriesKey(v.Name, labelMap(v.Labels))] = &Aggregate{
					Count: v.Count, Rate: v.Rate, Sum: v.Sum, Min: v.Min, Max: v.Max, Mean: v.AggregateSample.Mean(), Stddev: v.AggregateSample.Stddev(),
				}
			}
		}
		iv.RUnlock()
	}
	return out
}

func labelMap(labels []metrics.Label) map[string]string {
	out := make(map[string]string, len(labels))
	for _, l := range labels {
		out[l.Name] = l.Value
	}
	return out
}
