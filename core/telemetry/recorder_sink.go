// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package telemetry

import (
	"fmt"
	"strings"

	"github.com/hashicorp/go-metrics"
)

// The methods of metrics.MetricSink, which libraries call through go-metrics.

// ListenToLibraries makes the recorder the global sink of go-metrics in this process;
// names get the prefix.
func (r *Recorder) ListenToLibraries(prefix string) error {
	cfg := metrics.DefaultConfig(prefix)
	cfg.EnableHostname, cfg.EnableRuntimeMetrics = false, false
	if _, err := metrics.NewGlobal(cfg, r); err != nil {
		return fmt.Errorf("receive the metrics of libraries: %w", err)
	}
	return nil
}

func nameOf(key []string) string { return strings.ReplaceAll(strings.Join(key, "."), " ", "_") }

// SetGauge implements metrics.MetricSink.
func (r *Recorder) SetGauge(key []string, v float32) { r.SetGaugeWithLabels(key, v, nil) }

// SetGaugeWithLabels implements metrics.MetricSink.
func (r *Recorder) SetGaugeWithLabels(key []string, v float32, labels []metrics.Label) {
	r.record(nameOf(key), Gauge, labelMap(labels), func(s *Sample) { s.Value = float64(v) })
}

// EmitKey implements metrics.MetricSink; it is not used.
func (r *Recorder) EmitKey([]string, float32) {}

// IncrCounter implements metrics.MetricSink.
func (r *Recorder) IncrCounter(key []string, v float32) { r.IncrCounterWithLabels(key, v, nil) }

// IncrCounterWithLabels implements metrics.MetricSink.
func (r *Recorder) IncrCounterWithLabels(key []string, v float32, labels []metrics.Label) {
	r.Count(nameOf(key), float64(v), labelMap(labels))
}

// AddSample implements metrics.MetricSink.
func (r *Recorder) AddSample(key []string, v float32) { r.AddSampleWithLabels(key, v, nil) }

// AddSampleWithLabels implements metrics.MetricSink.
func (r *Recorder) AddSampleWithLabels(key []string, v float32, labels []metrics.Label) {
	name, of := nameOf(key), labelMap(labels)
	r.record(name, Summary, of, func(s *Sample) { s.Value, s.Count = s.Value+float64(v), s.Count+1 })
	r.recent.AddSampleWithLabels([]string{name}, v, pairs(of))
}
