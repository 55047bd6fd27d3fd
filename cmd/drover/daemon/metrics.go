// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/drover-project/drover/core/agent/stats"
	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/core/telemetry/otlp"
	"github.com/drover-project/drover/core/telemetry/statsd"
)

// measure creates the metrics registry and the recorder. The recorder also receives
// the metrics of libraries, such as the times of raft.
func (d *Daemon) measure() error {
	t := &d.cfg().Telemetry
	filter, err := telemetry.NewFilter(t.PrefixFilter, t.FilterDefault == nil || *t.FilterDefault)
	if err != nil {
		return err
	}
	labels, err := d.metricLabels()
	if err != nil {
		return err
	}
	d.labels = labels
	d.recorder = telemetry.NewRecorder(labels, config.Duration(t.InMemoryCollectionInterval, 10*time.Second), config.Duration(t.InMemoryRetentionPeriod, time.Minute))
	if err := d.recorder.ListenToLibraries("nomad"); err != nil {
		return err
	}
	d.metrics = telemetry.New(telemetry.Config{
		Interval: config.Duration(t.CollectionInterval, time.Second), Filter: filter, Labels: labels, Logger: d.log.Named("telemetry"),
	})
	return d.attachSinks()
}

// attachSinks connects the configured sinks to the registry.
func (d *Daemon) attachSinks() error {
	t := &d.cfg().Telemetry
	for _, s := range []struct {
		name, address string
		dialect       statsd.Dialect
		tags          []string
	}{
		{"statsd", t.StatsdAddress, statsd.Statsd, nil},
		{"statsite", t.StatsiteAddress, statsd.Statsite, nil},
		{"datadog", t.DatadogAddress, statsd.DogStatsd, t.DatadogTags},
	} {
		if s.address == "" {
			continue
		}
		sink, err := statsd.New(s.dialect, s.address, s.tags)
		if err != nil {
			return fmt.Errorf("telemetry.%s_address: %w", s.name, err)
		}
		d.metrics.Attach(s.name, sink)
	}
	if t.OTLPEndpoint == "" {
		return nil
	}
	sink, err := otlp.New(context.Background(), otlp.Config{
		Endpoint: t.OTLPEndpoint, Headers: t.OTLPHeaders,
		Resource: map[string]string{"service.name": "drover", "service.instance.id": d.cfg().Name},
	})
	if err != nil {
		return fmt.Errorf("telemetry.otlp_endpoint: %w", err)
	}
	d.metrics.Attach("otlp", sink)
	return nil
}

// metricLabels returns the labels of every metric.
func (d *Daemon) metricLabels() (map[string]string, error) {
	labels := map[string]string{}
	switch t := &d.cfg().Telemetry; {
	case t.DisableHostname:
	case t.UseNodeName:
		labels["host"] = d.cfg().Name
	default:
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("this machine has no host name for the metrics; set telemetry { use_node_name = true }: %w", err)
		}
		labels["host"] = host
	}
	return labels, nil
}

// addSources registers the agent's metrics under the reference's names. Metrics that
// only Drover has are computed when they are read.
func (d *Daemon) addSources() {
	t, labels := &d.cfg().Telemetry, d.labels
	d.metrics.Add(func(context.Context) []telemetry.Sample { return runtimeGauges(labels) })
	if d.server != nil {
		d.metrics.Add(func(ctx context.Context) []telemetry.Sample { return d.serverGauges(ctx, labels) })
	}
	if d.node != nil {
		d.metrics.Add(func(context.Context) []telemetry.Sample { return d.nodeGauges(labels) })
	}
	if d.node != nil && t.PublishNodeMetrics {
		d.metrics.Add(func(ctx context.Context) []telemetry.Sample {
			of, ok := d.nodeLabels()
			if !ok {
				return nil
			}
			return d.node.HostMetrics(ctx, of)
		})
	}
	if d.node != nil && t.PublishAllocationMetrics {
		opts := stats.AllocOptions{Metadata: t.IncludeAllocMetadataInMetrics, MetadataKeys: t.AllowedMetadataKeysInMetrics}
		d.metrics.Add(func(context.Context) []telemetry.Sample { return d.node.AllocMetrics(opts, labels) })
	}
	d.metrics.Add(d.recorder.Samples)
}

// Metrics returns the current values.
func (d *Daemon) Metrics(ctx context.Context) *api.MetricsSummary {
	set := d.metrics.Collect(ctx)
	out := &api.MetricsSummary{
		Timestamp: set.Time.UTC().Format("2006-01-02 15:04:05 +0000 UTC"),
		Gauges:    []api.MetricGauge{}, Points: []api.MetricPoint{}, Counters: []api.MetricSample{}, Samples: []api.MetricSample{},
	}
	for _, s := range set.Samples {
		switch s.Kind {
		case telemetry.Gauge:
			out.Gauges = append(out.Gauges, api.MetricGauge{Name: s.Name, Value: s.Value, Labels: s.Labels})
		case telemetry.Counter:
			out.Counters = append(out.Counters, sampleOf(s))
		case telemetry.Summary:
			out.Samples = append(out.Samples, sampleOf(s))
		case telemetry.Histogram:
			out.Histograms = append(out.Histograms, api.MetricHistogram{
				Name: s.Name, Bounds: s.Buckets.Bounds, Counts: s.Buckets.Counts, Count: s.Count, Sum: s.Value, Labels: s.Labels,
			})
		}
	}
	return out
}

func sampleOf(s telemetry.Sample) api.MetricSample {
	r := cmp.Or(s.Recent, &telemetry.Aggregate{})
	return api.MetricSample{
		Name: s.Name, Count: r.Count, Rate: r.Rate, Sum: r.Sum, Min: r.Min, Max: r.Max, Mean: r.Mean, Stddev: r.Stddev,
		Labels: s.Labels, Total: s.Value, TotalCount: s.Count,
	}
}

func runtimeGauges(labels map[string]string) []telemetry.Sample {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return append(gaugesOf(labels, map[string]float64{
		"nomad.runtime.num_goroutines":    float64(runtime.NumGoroutine()),
		"nomad.runtime.alloc_bytes":       float64(mem.Alloc),
		"nomad.runtime.sys_bytes":         float64(mem.Sys),
		"nomad.runtime.malloc_count":      float64(mem.Mallocs),
		"nomad.runtime.free_count":        float64(mem.Frees),
		"nomad.runtime.heap_objects":      float64(mem.HeapObjects),
		"nomad.runtime.total_gc_runs":     float64(mem.NumGC),
		"nomad.runtime.total_gc_pause_ns": float64(mem.PauseTotalNs),
	}), telemetry.Sample{Name: "drover.runtime.caught_panics", Kind: telemetry.Counter, Value: float64(panics.Caught()), Labels: labels})
}

// gaugesOf converts named values to gauges, sorted by name.
func gaugesOf(labels map[string]string, values map[string]float64) []telemetry.Sample {
	out := make([]telemetry.Sample, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, telemetry.Sample{Name: name, Value: values[name], Labels: labels})
	}
	return out
}

func (d *Daemon) serverGauges(ctx context.Context, labels map[string]string) []telemetry.Sample {
	broker, blocked, _, rows := d.server.Stats()
	raft := d.server.Raft()
	readOnly := 0.0
	if raft.ReadOnly() != nil {
		readOnly = 1
	}
	view := d.server.Endpoint().Store.View()
	values := map[string]float64{
		"nomad.nomad.broker.total_ready":          float64(broker.Ready),
		"nomad.nomad.broker.total_unacked":        float64(broker.Unacked),
		"nomad.nomad.broker.total_pending":        float64(broker.Waiting),
		"nomad.nomad.broker.total_waiting":        float64(broker.Delayed),
		"nomad.nomad.blocked_evals.total_blocked": float64(blocked),
		"nomad.nomad.read_only":                   readOnly, // 1 if the disk is full
		"nomad.raft.appliedIndex":                 float64(raft.AppliedIndex()),
		"nomad.raft.lastIndex":                    float64(raft.LastIndex()),
		"nomad.state.latestIndex":                 float64(view.Index()),
	}
	if s, err := d.server.SnapshotSchedule(); err == nil {
		values["nomad.snapshots.taken"], values["nomad.snapshots.failed"] = float64(s.Taken), float64(s.Failed)
		values["nomad.snapshots.failures"] = float64(s.Failures) // since the last success
		values["nomad.snapshots.stored"] = float64(len(s.Snapshots))
	}
	if h, err := d.AutopilotHealth(ctx); err == nil {
		maps.Copy(values, autopilotGauges(h))
	}
	for name, n := range rows {
		values["nomad.state."+name+".rows"] = float64(n)
	}
	dispatched := !d.cfg().Telemetry.DisableDispatchedJobSummaryMetrics
	return slices.Concat(gaugesOf(labels, values), laneGauges(d.server.QueueLanes(), labels), endpoint.ServerGauges(view, labels, dispatched))
}

// autopilotGauges returns the health of the servers, which only the leader knows.
func autopilotGauges(h *api.AutopilotHealth) map[string]float64 {
	if len(h.Servers) == 0 {
		return nil
	}
	healthy := 0.0
	if h.Healthy {
		healthy = 1
	}
	return map[string]float64{"nomad.nomad.autopilot.healthy": healthy, "nomad.nomad.autopilot.failure_tolerance": float64(h.FailureTolerance)}
}

// laneGauges returns the sizes of the lanes of the leader's queue.
func laneGauges(lanes []*api.QueueLane, labels map[string]string) (out []telemetry.Sample) {
	for _, l := range lanes {
		of := maps.Clone(labels)
		of["namespace"], of["node_pool"] = l.Namespace, l.NodePool
		out = append(out, gaugesOf(of, map[string]float64{
			"drover.queue.ready": float64(l.Ready), "drover.queue.unacked": float64(l.Unacked), "drover.queue.waiting": float64(l.Waiting),
			"drover.queue.holding": float64(l.Holding), "drover.queue.weight": float64(l.Weight), "drover.queue.last_wait_ms": float64(l.LastWait.Milliseconds()),
		})...)
		out = append(out, telemetry.Sample{Name: "drover.queue.served", Kind: telemetry.Counter, Value: float64(l.Served), Labels: of})
	}
	return out
}

// nodeGauges returns the metrics of this agent's allocs and resources.
func (d *Daemon) nodeGauges(labels map[string]string) []telemetry.Sample {
	if d.server != nil {
		view := d.server.Endpoint().Store.View()
		return endpoint.NodeGauges(view.NodeByID(d.localNode()), view.AllocsByNode(d.localNode()), labels)
	}
	return endpoint.NodeGauges(d.ownNode(), d.node.Allocs(), labels)
}

// ownNode returns the agent's node as the agent itself knows it.
func (d *Daemon) ownNode() *model.Node {
	n := d.node.Node().Copy()
	if d.node.Connected() {
		n.Status = model.NodeStatusReady
	}
	return n
}

// nodeLabels returns the labels of metrics of this agent's node. It returns false
// until the node has registered.
func (d *Daemon) nodeLabels() (map[string]string, bool) {
	if d.server == nil {
		return endpoint.NodeLabels(d.ownNode(), d.labels), true
	}
	node := d.server.Endpoint().Store.View().NodeByID(d.localNode())
	if node == nil {
		return nil, false
	}
	return endpoint.NodeLabels(node, d.labels), true
}
