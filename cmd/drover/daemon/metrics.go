// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/armon/go-metrics"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/model"
)

// measured collects what libraries measure, which is raft's own times: they go
// to the one global sink of go-metrics. What is Drover's own is derived from
// state when it is asked for.
var measured = sync.OnceValue(func() *metrics.InmemSink {
	sink := metrics.NewInmemSink(10*time.Second, time.Minute)
	cfg := metrics.DefaultConfig("nomad")
	cfg.EnableHostname, cfg.EnableRuntimeMetrics = false, false
	if _, err := metrics.NewGlobal(cfg, sink); err != nil {
		return metrics.NewInmemSink(10*time.Second, time.Minute) // nothing arrives there
	}
	return sink
})

// metricsTime bounds what a node may take to say how its machine does.
const metricsTime = 2 * time.Second

// Metrics are the figures of the process, of the server and of the node, with
// the reference's names.
func (d *Daemon) Metrics() *api.MetricsSummary {
	labels := map[string]string{}
	if !d.cfg.Telemetry.DisableHostname {
		labels["host"] = d.cfg.Name
	}
	out := &api.MetricsSummary{
		Timestamp: time.Now().UTC().Format("2006-01-02 15:04:05 +0000 UTC"),
		Points:    []api.MetricPoint{}, Counters: []api.MetricSample{}, Samples: []api.MetricSample{},
		Gauges: slices.Concat(runtimeGauges(labels), d.serverGauges(labels), d.nodeGauges(labels)),
	}
	d.addMeasured(out, labels)
	return out
}

func runtimeGauges(labels map[string]string) []api.MetricGauge {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return gaugesOf(labels, map[string]float64{
		"nomad.runtime.num_goroutines":    float64(runtime.NumGoroutine()),
		"nomad.runtime.alloc_bytes":       float64(mem.Alloc),
		"nomad.runtime.sys_bytes":         float64(mem.Sys),
		"nomad.runtime.malloc_count":      float64(mem.Mallocs),
		"nomad.runtime.free_count":        float64(mem.Frees),
		"nomad.runtime.heap_objects":      float64(mem.HeapObjects),
		"nomad.runtime.total_gc_runs":     float64(mem.NumGC),
		"nomad.runtime.total_gc_pause_ns": float64(mem.PauseTotalNs),
	})
}

// gaugesOf turns named values into gauges, ordered by name.
func gaugesOf(labels map[string]string, values map[string]float64) []api.MetricGauge {
	out := make([]api.MetricGauge, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, api.MetricGauge{Name: name, Value: values[name], Labels: labels})
	}
	return out
}

func (d *Daemon) serverGauges(labels map[string]string) []api.MetricGauge {
	broker, blocked, _, rows := d.server.Stats()
	raft := d.server.Raft()
	leads := 0.0
	if raft.IsLeader() {
		leads = 1
	}
	values := map[string]float64{
		"nomad.nomad.broker.total_ready":          float64(broker.Ready),
		"nomad.nomad.broker.total_unacked":        float64(broker.Unacked),
		"nomad.nomad.broker.total_pending":        float64(broker.Waiting),
		"nomad.nomad.broker.total_waiting":        float64(broker.Delayed),
		"nomad.nomad.blocked_evals.total_blocked": float64(blocked),
		"nomad.nomad.autopilot.healthy":           leads,
		"nomad.nomad.autopilot.failure_tolerance": 0,
		"nomad.raft.appliedIndex":                 float64(raft.AppliedIndex()),
		"nomad.raft.lastIndex":                    float64(raft.LastIndex()),
		"nomad.state.latestIndex":                 float64(d.View().Index()),
	}
	for name, n := range rows {
		values["nomad.state."+name+".rows"] = float64(n)
	}
	return append(gaugesOf(labels, values), endpoint.ServerGauges(d.Store.View(), labels)...)
}

func (d *Daemon) nodeGauges(labels map[string]string) []api.MetricGauge {
	id := d.localNode()
	node := d.Store.View().NodeByID(id)
	if id == "" || node == nil {
		return nil
	}
	return append(endpoint.NodeGauges(d.Store.View(), id, labels), d.hostGauges(node, labels)...)
}

// hostGauges are none while the node does not answer.
func (d *Daemon) hostGauges(node *model.Node, labels map[string]string) []api.MetricGauge {
	ctx, cancel := context.WithTimeout(context.Background(), metricsTime)
	defer cancel()
	answer, err := d.NodeStats(ctx, node.ID)
	if err != nil {
		return nil
	}
	body, ok := answer.(json.RawMessage)
	if !ok {
		return nil
	}
	var use endpoint.HostUse
	if err := json.Unmarshal(body, &use); err != nil {
		d.log.Warn("a node's host stats cannot be read; its metrics are left out", "error", err)
		return nil
	}
	return endpoint.HostGauges(node, &use, labels)
}

// addMeasured adds what libraries measured in the newest interval that has something.
func (d *Daemon) addMeasured(out *api.MetricsSummary, labels map[string]string) {
	own := map[string]bool{} // a name that is told twice is an error to who scrapes
	for _, g := range out.Gauges {
		own[g.Name] = true
	}
	intervals := measured().Data()
	for i := len(intervals) - 1; i >= 0 && i >= len(intervals)-2; i-- {
		iv := intervals[i]
		iv.RLock()
		for _, v := range iv.Counters {
			out.Counters = append(out.Counters, sampleOf(v, labels))
		}
		for _, v := range iv.Samples {
			out.Samples = append(out.Samples, sampleOf(v, labels))
		}
		for _, v := range iv.Gauges {
			if own[v.Name] {
				continue
			}
			out.Gauges = append(out.Gauges, api.MetricGauge{Name: v.Name, Value: float64(v.Value), Labels: labels})
		}
		found := len(iv.Counters)+len(iv.Samples) > 0
		iv.RUnlock()
		if found {
			break
		}
	}
	byName := func(a, b api.MetricSample) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(out.Counters, byName)
	slices.SortFunc(out.Samples, byName)
}

func sampleOf(v metrics.SampledValue, labels map[string]string) api.MetricSample {
	return api.MetricSample{
		Name: v.Name, Count: v.Count, Rate: v.Rate, Sum: v.Sum, Min: v.Min, Max: v.Max, Mean: v.AggregateSample.Mean(), Stddev: v.AggregateSample.Stddev(),
		Labels: labels,
	}
}
