// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package otlp_test

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/core/telemetry/otlp"
	"github.com/drover-project/drover/sdk/errdefs"
)

var set = &telemetry.Set{Time: time.Unix(1000, 0), Samples: []telemetry.Sample{
	{Name: "nomad.a", Value: 1.5, Labels: map[string]string{"task": "web"}},
	{Name: "nomad.a", Value: 2.5, Labels: map[string]string{"task": "db"}},
	{Name: "nomad.b", Kind: telemetry.Counter, Value: 7},
	{Name: "nomad.c", Kind: telemetry.Summary, Value: 40, Count: 4},
	{Name: "nomad.d", Kind: telemetry.Histogram, Value: 9, Count: 6, Buckets: &telemetry.Buckets{Bounds: []float64{1, 10}, Counts: []uint64{3, 2, 1}}},
}}

// check looks at what a collector got.
func check(t *testing.T, got *collector.ExportMetricsServiceRequest) {
	t.Helper()
	r := got.GetResourceMetrics()
	if len(r) != 1 || len(r[0].GetResource().GetAttributes()) != 1 || r[0].GetResource().GetAttributes()[0].GetValue().GetStringValue() != "drover" {
		t.Fatalf("the resource is %v", r)
	}
	byName := map[string]*metrics.Metric{}
	for _, m := range r[0].GetScopeMetrics()[0].GetMetrics() {
		byName[m.GetName()] = m
	}
	gauge := byName["nomad.a"].GetGauge().GetDataPoints()
	if len(gauge) != 2 || gauge[0].GetAsDouble() != 1.5 || gauge[1].GetAttributes()[0].GetValue().GetStringValue() != "db" {
		t.Errorf("the gauge is %v", gauge)
	}
	sum := byName["nomad.b"].GetSum()
	if !sum.GetIsMonotonic() || sum.GetAggregationTemporality() != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || sum.GetDataPoints()[0].GetAsDouble() != 7 {
		t.Errorf("the counter is %v", sum)
	}
	if c := byName["nomad.c"].GetSummary().GetDataPoints(); len(c) != 1 || c[0].GetCount() != 4 || c[0].GetSum() != 40 {
		t.Errorf("the summary is %v", c)
	}
	h := byName["nomad.d"].GetHistogram().GetDataPoints()
	if len(h) != 1 || h[0].GetCount() != 6 || h[0].GetSum() != 9 || !slices.Equal(h[0].GetBucketCounts(), []uint64{3, 2, 1}) || !slices.Equal(h[0].GetExplicitBounds(), []float64{1, 10}) {
		t.Errorf("the histogram is %v", h)
	}
}

func publish(t *testing.T, endpoint string) error {
	t.Helper()
	s, err := otlp.New(t.Context(), otlp.Config{Endpoint: endpoint, Headers: map[string]string{"x-key": "k"}, Resource: map[string]string{"service.name": "drover"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return s.Publish(ctx, set)
}

func TestACollectorGetsMetricsOverHTTP(t *testing.T) {
	var got collector.ExportMetricsServiceRequest
	var path, key string
	fail := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fail {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		path, key = r.URL.Path, r.Header.Get("x-key")
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(z)
		if err != nil {
			t.Error(err)
		}
		if err := proto.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	if err := publish(t, srv.URL); err != nil {
		t.Fatal(err)
	}
	check(t, &got)
	if path != "/v1/metrics" || key != "k" {
		t.Errorf("sent to %q with the key %q", path, key)
	}
	if err := publish(t, srv.URL+"/otel/in"); err != nil || path != "/otel/in" {
		t.Errorf("sent to %q: %v", path, err)
	}
	fail = true
	if err := publish(t, srv.URL); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a refusal is %v", err)
	}
}

type server struct {
	collector.UnimplementedMetricsServiceServer
	got *collector.ExportMetricsServiceRequest
	key []string
}

func (s *server) Export(ctx context.Context, r *collector.ExportMetricsServiceRequest) (*collector.ExportMetricsServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.got, s.key = r, md.Get("x-key")
	return &collector.ExportMetricsServiceResponse{}, nil
}

func TestACollectorGetsMetricsOverGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, g := &server{}, grpc.NewServer()
	collector.RegisterMetricsServiceServer(g, s)
	go func() { _ = g.Serve(l) }()
	defer g.Stop()
	if err := publish(t, "grpc://"+l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	check(t, s.got)
	if len(s.key) != 1 || s.key[0] != "k" {
		t.Errorf("the header is %q", s.key)
	}
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	for _, endpoint := range []string{"", "collector:4317", "ftp://collector", "http://"} {
		if _, err := otlp.New(t.Context(), otlp.Config{Endpoint: endpoint}); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
