// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/core/telemetry"
)

// samples collects samples that have labels in common.
type samples struct {
	labels map[string]string
	out    []telemetry.Sample
}

// with are the common labels and more, which are pairs.
func (s *samples) with(more ...string) map[string]string {
	labels := make(map[string]string, len(s.labels)+len(more)/2)
	maps.Copy(labels, s.labels)
	for i := 0; i+1 < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

func (s *samples) gauge(labels map[string]string, name string, v float64) {
	s.out = append(s.out, telemetry.Sample{Name: name, Value: v, Labels: labels})
}

// counter adds a counter that a source maintains. Its sum is also reported as recent,
// because no interval is known.
func (s *samples) counter(labels map[string]string, name string, v float64) {
	c := telemetry.Sample{Name: name, Kind: telemetry.Counter, Value: v, Labels: labels}
	if v > 0 {
		c.Recent = &telemetry.Aggregate{Count: 1, Sum: v, Min: v, Max: v, Mean: v}
	}
	s.out = append(s.out, c)
}

// HostSamples returns the metrics of the machine: the metrics of the reference under its
// names, other ones below drover.client. Outdated values are left out, so the series of a
// collector that is away end; drover.client.collector.up shows that it is away.
func HostSamples(readings []pluginhost.HostReading, mhz float64, labels map[string]string) []telemetry.Sample {
	s := &samples{labels: labels}
	var now []pluginhost.HostReading
	for _, r := range readings {
		up := 0.0
		if r.Problem == nil && r.Now != nil {
			up = 1
			now = append(now, r)
		}
		s.gauge(s.with("collector", r.Collector, "plugin", r.Plugin), "drover.client.collector.up", up)
	}
	m := merge(now)
	s.machine(&m, mhz)
	s.flows(&m.now)
	for _, r := range now {
		s.series(r)
	}
	return s.out
}

// machine adds the metrics that the reference has, too.
func (s *samples) machine(m *merged, mhz float64) {
	if m.now.Uptime > 0 {
		s.gauge(s.labels, "nomad.client.uptime", float64(m.now.Uptime/time.Second))
	}
	if x := m.now.Memory; x != nil {
		s.gauge(s.labels, "nomad.client.host.memory.total", float64(x.Total))
		s.gauge(s.labels, "nomad.client.host.memory.available", float64(x.Available))
		s.gauge(s.labels, "nomad.client.host.memory.used", float64(x.Used))
		s.gauge(s.labels, "nomad.client.host.memory.free", float64(x.Free))
	}
	for i, c := range m.cores(mhz) {
		of := s.with("cpu", c.CPU)
		s.gauge(of, "nomad.client.host.cpu.total_percent", c.TotalPercent)
		s.gauge(of, "nomad.client.host.cpu.total", c.TotalPercent)
		s.gauge(of, "nomad.client.host.cpu.total_ticks", c.TotalTicks)
		s.gauge(of, "nomad.client.host.cpu.user", c.User)
		s.gauge(of, "nomad.client.host.cpu.idle", c.Idle)
		s.gauge(of, "nomad.client.host.cpu.system", c.System)
		t := m.now.CPU.Cores[i]
		s.counter(of, "nomad.client.host.cpu.total_ticks_count", (t.Sum()-t.Idle)*mhz)
	}
	told := map[string]bool{} // a device with several mount points is reported once
	for _, f := range m.now.FileSystems {
		if f.Device == "" || f.Device[0] != '/' || told[f.Device] {
			continue
		}
		told[f.Device] = true
		d, of := diskOf(f), s.with("disk", f.Device)
		s.gauge(of, "nomad.client.host.disk.size", float64(d.Size))
		s.gauge(of, "nomad.client.host.disk.used", float64(d.Used))
		s.gauge(of, "nomad.client.host.disk.available", float64(d.Available))
		s.gauge(of, "nomad.client.host.disk.used_percent", d.UsedPercent)
		s.gauge(of, "nomad.client.host.disk.inodes_percent", d.InodesUsedPercent)
	}
}

// flows adds metrics that the reference does not have.
func (s *samples) flows(n *stats.Sample) {
	if w := n.Swap; w != nil {
		s.gauge(s.labels, "drover.client.host.swap.total", float64(w.Total))
		s.gauge(s.labels, "drover.client.host.swap.used", float64(w.Used))
		s.counter(s.labels, "drover.client.host.swap.in_bytes", float64(w.In))
		s.counter(s.labels, "drover.client.host.swap.out_bytes", float64(w.Out))
	}
	if l := n.Load; l != nil {
		s.gauge(s.labels, "drover.client.host.load.1m", l.One)
		s.gauge(s.labels, "drover.client.host.load.5m", l.Five)
		s.gauge(s.labels, "drover.client.host.load.15m", l.Fifteen)
	}
	for _, d := range n.Disks {
		of := s.with("disk", d.Device)
		s.counter(of, "drover.client.host.io.reads", float64(d.Reads))
		s.counter(of, "drover.client.host.io.writes", float64(d.Writes))
		s.counter(of, "drover.client.host.io.read_bytes", float64(d.ReadBytes))
		s.counter(of, "drover.client.host.io.written_bytes", float64(d.WrittenBytes))
		s.counter(of, "drover.client.host.io.busy_seconds", d.BusyTime.Seconds())
	}
	for _, x := range n.Networks {
		of := s.with("interface", x.Interface)
		s.counter(of, "drover.client.host.network.received_bytes", float64(x.ReceivedBytes))
		s.counter(of, "drover.client.host.network.received_packets", float64(x.ReceivedPackets))
		s.counter(of, "drover.client.host.network.received_errors", float64(x.ReceivedErrors))
		s.counter(of, "drover.client.host.network.received_drops", float64(x.ReceivedDrops))
		s.counter(of, "drover.client.host.network.sent_bytes", float64(x.SentBytes))
		s.counter(of, "drover.client.host.network.sent_packets", float64(x.SentPackets))
		s.counter(of, "drover.client.host.network.sent_errors", float64(x.SentErrors))
		s.counter(of, "drover.client.host.network.sent_drops", float64(x.SentDrops))
	}
	for _, t := range n.Temperatures {
		s.gauge(s.with("sensor", t.Sensor), "drover.client.host.temperature_celsius", t.Celsius)
	}
}

// maxValues bounds what one collector may add.
const maxValues = 5000

// series adds the series that only this collector measures.
func (s *samples) series(r pluginhost.HostReading) {
	declared := map[string]*stats.Series{}
	for i := range r.Info.Series {
		declared[r.Info.Series[i].Name] = &r.Info.Series[i]
	}
	tasks := make(map[string]*stats.Task, len(r.Tasks))
	for i := range r.Tasks {
		tasks[r.Tasks[i].ID] = &r.Tasks[i]
	}
	for _, v := range r.Now.Values[:min(len(r.Now.Values), maxValues)] {
		x := declared[v.Series]
		t := tasks[v.Task]
		if x == nil || x.PerTask != (t != nil) { // not declared, or of a task that does not run
			continue
		}
		of := s.with("collector", r.Collector)
		if t != nil { // as the metrics of allocs have them
			of["alloc_id"], of["task_group"], of["task"], of["namespace"], of["job"] = t.AllocID, t.TaskGroup, t.Name, t.Namespace, t.JobID
		}
		for name, value := range v.Labels {
			if _, ours := of[name]; !ours {
				of[name] = value
			}
		}
		switch name := "drover.client.stats." + v.Series; x.Kind {
		case stats.Counter:
			s.counter(of, name, v.Value)
		case stats.Histogram:
			s.histogram(of, name, x.Bounds, v.Observed)
		default:
			s.gauge(of, name, v.Value)
		}
	}
}

// histogram adds the value of a histogram, unless it has another number of counts than
// buckets.
func (s *samples) histogram(labels map[string]string, name string, bounds []float64, o *stats.Observed) {
	if o == nil || len(bounds) > stats.MaxBounds || len(o.Counts) != len(bounds)+1 || !slices.IsSorted(bounds) {
		return
	}
	delete(labels, "le") // the name of the bucket where buckets are lines
	s.out = append(s.out, telemetry.Sample{
		Name: name, Kind: telemetry.Histogram, Value: o.Sum, Count: o.Count(), Labels: labels,
		Buckets: &telemetry.Buckets{Bounds: bounds, Counts: o.Counts},
	})
}
