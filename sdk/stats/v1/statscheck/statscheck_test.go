// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statscheck_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statscheck"
	"github.com/drover-project/drover/sdk/stats/v1/statstest/filestats"
)

// machine is a collector that keeps the contract but for its defect.
type machine struct {
	info    func(*stats.Info)
	sample  func(n int64, s *stats.Sample)
	collect func(context.Context, time.Duration) (<-chan stats.Sample, error)
	n       atomic.Int64
}

func (m *machine) Info() stats.Info {
	i := stats.Info{
		Name: "machine", Parts: []stats.Part{stats.PartMemory, stats.PartUptime, stats.PartNetworks},
		Series: []stats.Series{{Name: "fan.speed", Unit: "rpm", Kind: stats.Gauge, Description: "how fast", Labels: []string{"fan"}}},
	}
	if m.info != nil {
		m.info(&i)
	}
	return i
}

func (m *machine) SetConfig(context.Context, []byte) error { return nil }

func (m *machine) measure(context.Context) stats.Sample {
	n := m.n.Add(1)
	s := stats.Sample{
		Time: time.Now(), Uptime: time.Duration(n) * time.Second, Memory: &stats.Memory{Total: 10, Used: 4, Available: 6},
		Networks: []stats.Network{{Interface: "eth0", ReceivedBytes: uint64(n)}},
		Values:   []stats.Value{{Series: "fan.speed", Labels: map[string]string{"fan": "1"}, Value: 900}},
	}
	if m.sample != nil {
		m.sample(n, &s)
	}
	return s
}

func (m *machine) Collect(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	if m.collect != nil {
		return m.collect(ctx, interval)
	}
	return stats.Every(ctx, interval, m.measure)
}

// queue measures without looking whether anybody reads.
func queue(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	out := make(chan stats.Sample, 1000)
	go func() {
		defer close(out)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			out <- stats.Sample{Time: time.Now()}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// tasked is a collector of tasks that keeps the contract but for its defect.
type tasked struct {
	*filestats.Collector
	set func([]stats.Task) []stats.Task
}

func (c tasked) SetTasks(ctx context.Context, tasks []stats.Task) error {
	if c.set != nil {
		tasks = c.set(tasks)
	}
	return c.Collector.SetTasks(ctx, tasks)
}

func TestACollectorThatForgetsWhichTasksEndedFailsTheCheck(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "check"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(set func([]stats.Task) []stats.Task) conformance.Result {
		all := statscheck.Checks()
		i := slices.IndexFunc(all, func(c statscheck.Check) bool { return c.Name == "tasks" })
		return all[i].Run(t.Context(), statscheck.Subject{
			Timeout: 3 * time.Second, Interval: 20 * time.Millisecond, InProcess: true, Config: map[string]any{"dir": dir},
			Connect: func(*conformance.T) (stats.Collector, func()) { return tasked{filestats.New("file"), set}, func() {} },
		})
	}
	var all []stats.Task
	if bad := run(func(tasks []stats.Task) []stats.Task { all = append(all, tasks...); return all }); bad.Outcome != conformance.Failed {
		t.Errorf("the check said %+v", bad)
	}
	if good := run(nil); good.Outcome != conformance.Passed {
		t.Errorf("without the defect it said %+v", good)
	}
}

func TestADefectFailsTheCheckOfItsRule(t *testing.T) {
	run := func(name string, m *machine) conformance.Result {
		all := statscheck.Checks()
		i := slices.IndexFunc(all, func(c statscheck.Check) bool { return c.Name == name })
		return all[i].Run(t.Context(), statscheck.Subject{
			Timeout: 3 * time.Second, Interval: 20 * time.Millisecond, InProcess: true,
			Connect: func(*conformance.T) (stats.Collector, func()) { return m, func() {} },
		})
	}
	forever := make(chan struct{})
	var leaked sync.WaitGroup
	defer leaked.Wait() // or the next run of this test counts them
	defer close(forever)
	for rule, m := range map[string]*machine{
		"info":                                {info: func(i *stats.Info) { i.Name = "a machine" }},
		"series":                              {info: func(i *stats.Info) { i.Series[0].Unit = "mph" }},
		"series: bounds that do not ascend":   {info: func(i *stats.Info) { i.Series[0].Kind, i.Series[0].Bounds = stats.Histogram, []float64{2, 1} }},
		"series: a histogram without bounds":  {info: func(i *stats.Info) { i.Series[0].Kind = stats.Histogram }},
		"series: tasks of which nobody tells": {info: func(i *stats.Info) { i.Series[0].PerTask = true }},
		"values: counts of a gauge":           {sample: func(_ int64, s *stats.Sample) { s.Values[0].Observed = stats.NewObserved(nil) }},
		"values: buckets without counts": {
			info:   func(i *stats.Info) { i.Series[0].Kind, i.Series[0].Bounds = stats.Histogram, []float64{1, 2} },
			sample: func(_ int64, s *stats.Sample) { s.Values[0].Observed = stats.NewObserved([]float64{1}) },
		},
		"counters: a bucket that goes back": {
			info: func(i *stats.Info) { i.Series[0].Kind, i.Series[0].Bounds = stats.Histogram, []float64{1} },
			sample: func(n int64, s *stats.Sample) {
				s.Values[0].Observed = &stats.Observed{Counts: []uint64{uint64(1000 - n), uint64(n)}}
			},
		},
		"complete":   {sample: func(_ int64, s *stats.Sample) { s.Networks = nil }},
		"values":     {sample: func(_ int64, s *stats.Sample) { s.Memory.Used = 11; s.Values[0].Value = math.NaN() }},
		"named-once": {sample: func(_ int64, s *stats.Sample) { s.Networks = append(s.Networks, s.Networks[0]) }},
		"counters":   {sample: func(n int64, s *stats.Sample) { s.Networks[0].ReceivedBytes = uint64(1000 - n) }},
		"collect":    {sample: func(_ int64, s *stats.Sample) { s.Time = time.Time{} }},
		"interval": {collect: func(ctx context.Context, _ time.Duration) (<-chan stats.Sample, error) {
			return queue(ctx, time.Second)
		}},
		"slow-reader": {collect: queue},
		"nothing-behind": {collect: func(ctx context.Context, d time.Duration) (<-chan stats.Sample, error) {
			leaked.Go(func() { <-forever })
			return queue(ctx, d)
		}},
		"streams-apart": {collect: func(ctx context.Context, d time.Duration) (<-chan stats.Sample, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*d)
			ch, err := queue(ctx, d)
			time.AfterFunc(3*d, cancel)
			return ch, err
		}},
	} {
		t.Run(rule, func(t *testing.T) {
			name, _, _ := strings.Cut(rule, ":")
			if bad := run(name, m); bad.Outcome != conformance.Failed || len(bad.Problems) == 0 {
				t.Errorf("the check of the defect said %+v", bad)
			}
			if good := run(name, &machine{}); good.Outcome != conformance.Passed {
				t.Errorf("without the defect it said %+v", good)
			}
		})
	}
}
