// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package otlp sends metrics to an OpenTelemetry collector, or anything with its
// protocol, over HTTP or gRPC. It owns the conversion of our metrics; OpenTelemetry's
// exporters implement the protocol. cmd/drover/daemon imports it.
package otlp

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Config configures a Sink.
type Config struct {
	// Endpoint is a URL: http and https for the protocol over HTTP, where the path
	// is /v1/metrics unless it has one; grpc and grpcs for gRPC.
	Endpoint string
	Headers  map[string]string
	// Resource describes the sender, with attributes such as service.name.
	Resource map[string]string
}

// Sink implements telemetry.Sink.
type Sink struct {
	exporter metric.Exporter
	resource *resource.Resource
	start    time.Time
}

// New creates a sink. It does not connect yet. InvalidArgument: the endpoint is not a
// URL with a known scheme.
func New(ctx context.Context, c Config) (*Sink, error) {
	exporter, err := newExporter(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Sink{exporter: exporter, resource: resource.NewSchemaless(attributes(c.Resource)...), start: time.Now()}, nil
}

func newExporter(ctx context.Context, c Config) (metric.Exporter, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" {
		return nil, errdefs.InvalidArgumentf("%q is not a URL; give one as http://127.0.0.1:4318 or grpc://127.0.0.1:4317", c.Endpoint)
	}
	// No retries: the next interval sends newer values.
	switch u.Scheme {
	case "http", "https":
		opts := []otlpmetrichttp.Option{
			otlpmetrichttp.WithEndpoint(u.Host), otlpmetrichttp.WithHeaders(c.Headers),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression),
		}
		if u.Path != "" && u.Path != "/" {
			opts = append(opts, otlpmetrichttp.WithURLPath(u.Path))
		}
		if u.Scheme == "http" {
			opts = append(opts, otlpmetrichttp.WithInsecure())
		}
		return otlpmetrichttp.New(ctx, opts...)
	case "grpc", "grpcs":
		opts := []otlpmetricgrpc.Option{
			otlpmetricgrpc.WithEndpoint(u.Host), otlpmetricgrpc.WithHeaders(c.Headers), otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}),
		}
		if u.Scheme == "grpc" {
			opts = append(opts, otlpmetricgrpc.WithInsecure())
		}
		return otlpmetricgrpc.New(ctx, opts...)
	}
	return nil, errdefs.InvalidArgumentf("%q: the scheme is none of http, https, grpc and grpcs", c.Endpoint)
}

// Publish implements telemetry.Sink.
func (s *Sink) Publish(ctx context.Context, set *telemetry.Set) error {
	if len(set.Samples) == 0 {
		return nil
	}
	err := s.exporter.Export(ctx, &metricdata.ResourceMetrics{
		Resource: s.resource,
		ScopeMetrics: []metricdata.ScopeMetrics{{
			Scope: instrumentation.Scope{Name: "github.com/drover-project/drover"}, Metrics: s.metrics(set),
		}},
	})
	if err != nil {
		return fmt.Errorf("send to the OpenTelemetry collector: %w", err)
	}
	return nil
}

// Close implements telemetry.Sink.
func (s *Sink) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.exporter.Shutdown(ctx)
}

// metrics groups samples by name; the set is sorted by name.
func (s *Sink) metrics(set *telemetry.Set) []metricdata.Metrics {
	var out []metricdata.Metrics
	for i := 0; i < len(set.Samples); {
		end := i + 1
		for end < len(set.Samples) && set.Samples[end].Name == set.Samples[i].Name && set.Samples[end].Kind == set.Samples[i].Kind {
			end++
		}
		out = append(out, metricdata.Metrics{Name: set.Samples[i].Name, Data: s.data(set.Time, set.Samples[i:end])})
		i = end
	}
	return out
}

func (s *Sink) data(now time.Time, samples []telemetry.Sample) metricdata.Aggregation {
	if samples[0].Kind == telemetry.Summary {
		out := metricdata.Summary{}
		for _, m := range samples {
			out.DataPoints = append(out.DataPoints, metricdata.SummaryDataPoint{
				Attributes: attribute.NewSet(attributes(m.Labels)...), StartTime: s.start, Time: now, Count: m.Count, Sum: m.Value,
			})
		}
		return out
	}
	if samples[0].Kind == telemetry.Histogram {
		out := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for _, m := range samples {
			out.DataPoints = append(out.DataPoints, metricdata.HistogramDataPoint[float64]{
				Attributes: attribute.NewSet(attributes(m.Labels)...), StartTime: s.start, Time: now, Count: m.Count, Sum: m.Value,
				Bounds: m.Buckets.Bounds, BucketCounts: m.Buckets.Counts,
			})
		}
		return out
	}
	points := make([]metricdata.DataPoint[float64], 0, len(samples))
	for _, m := range samples {
		points = append(points, metricdata.DataPoint[float64]{
			Attributes: attribute.NewSet(attributes(m.Labels)...), StartTime: s.start, Time: now, Value: m.Value,
		})
	}
	if samples[0].Kind == telemetry.Counter {
		return metricdata.Sum[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	}
	return metricdata.Gauge[float64]{DataPoints: points}
}

func attributes(labels map[string]string) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(labels))
	for k, v := range labels {
		out = append(out, attribute.String(k, v))
	}
	return out
}
