// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

var streamChecks = []Check{
	{"fingerprint", "the first fingerprint comes at once with attributes of the driver only, others when something changes, and the stream ends with its context and not before", nil, checkFingerprint},
	{"stats", "stats come for all running tasks, none of ended ones, and end with their context", nil, checkStats},
	{"stats-units", "what is measured is named and in range, what is not is zero; a task that runs has memory", nil, checkStatsUnits},
	{"stats-interval", "an interval that is not above zero is refused", nil, checkStatsInterval},
	{"stats-slow", "a slow reader of stats gets fewer samples, never old ones", nil, checkStatsSlowReader},
	{"events", "events go on until their context ends", nil, checkEvents},
	{"progress", "the progress of a start names its phase, counts up to its total and comes a few times a second", nil, checkProgress},
}

func checkFingerprint(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	prints, err := b.d.Fingerprint(ctx)
	if err != nil {
		b.t.Fatalf("Fingerprint: %v", err)
	}
	f, ok := conformance.Receive(b.t, prints, "the first fingerprint")
	if !ok {
		b.t.Fatalf("the stream ended before the first fingerprint")
	}
	healths := []driver.Health{driver.HealthUndetected, driver.HealthUnhealthy, driver.HealthHealthy}
	if !slices.Contains(healths, f.Health) {
		b.t.Errorf("the health is %q, want one of %q", f.Health, healths)
	}
	if f.Health != driver.HealthHealthy && f.HealthDescription == "" {
		b.t.Errorf("the driver is %s and does not say why", f.Health)
	}
	name := "driver." + b.d.Info().Name
	for key := range f.Attributes {
		if key != name && !strings.HasPrefix(key, name+".") && !b.subject.Foreign {
			b.t.Errorf("the attribute %q is not the driver's own, and agents leave it out: begin it with %q", key, name+".")
		}
	}
	conformance.GoesOn(b.t, prints, "the fingerprints", func(next driver.Fingerprint) {
		if reflect.DeepEqual(next, f) && !b.subject.Foreign {
			b.t.Errorf("a fingerprint came again though nothing has changed")
		}
		f = next
	})
	cancel()
	conformance.Ended(b.t, prints, "the fingerprints")
}

// samples opens a stream of stats, or skips the check if the driver has none.
func (b *bench) samples(ctx context.Context) <-chan []driver.TaskStats {
	samples, err := b.d.TaskStats(ctx, 20*time.Millisecond)
	if errdefs.IsUnimplemented(err) {
		b.t.Skipf("the driver says that it cannot measure its tasks")
	}
	if err != nil {
		b.t.Fatalf("TaskStats: %v", err)
	}
	return samples
}

func checkStats(b *bench) {
	one, _ := b.start(forever)
	two, _ := b.start(forever)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples := b.samples(ctx)
	seen := map[string]bool{}
	for !seen[one.ID] || !seen[two.ID] {
		sample, ok := conformance.Receive(b.t, samples, "a sample of each task")
		if !ok {
			b.t.Fatalf("the stream ended without samples of both tasks: %v", seen)
		}
		for _, s := range sample {
			seen[s.TaskID] = true
		}
	}
	if err := b.d.StopTask(b.ctx, one.ID, time.Second, ""); err != nil {
		b.t.Fatalf("StopTask: %v", err)
	}
	// A sample that was being taken when the task ended may still contain it.
	for named := true; named; {
		sample, ok := conformance.Receive(b.t, samples, "a sample without the task that has ended")
		if !ok {
			b.t.Fatalf("the stream of stats ended though a task still runs")
		}
		named = slices.ContainsFunc(sample, func(s driver.TaskStats) bool { return s.TaskID == one.ID })
	}
	cancel()
	conformance.Ended(b.t, samples, "the stats")
}

func checkStatsUnits(b *bench) {
	config, _ := b.start(forever)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples := b.samples(ctx)
	var before driver.IOStats
	begin, small := time.Now(), false
	for of := 0; of < 2 || small; {
		sample, ok := conformance.Receive(b.t, samples, "two samples of the task")
		if !ok {
			b.t.Fatalf("the stream ended after %d samples", of)
		}
		if small && time.Since(begin) > aWhile {
			b.t.Fatalf("a task that runs has used no memory for %s, say %d samples", aWhile, of)
		}
		for _, s := range sample {
			if s.TaskID != config.ID {
				continue
			}
			of++
			if s.Time.IsZero() || time.Since(s.Time).Abs() > time.Hour {
				b.t.Errorf("the sample's time is %s", s.Time)
			}
			checkUsage(b, "the task", s.CPU, s.Memory)
			checkIO(b, before, s.IO)
			before, small = s.IO, hasNone(s.Memory)
			for pid, u := range s.Pids {
				checkUsage(b, "process "+pid, u.CPU, u.Memory)
			}
		}
	}
}

// hasNone reports whether all memory of a task is measured as 0. Kernels count what a cgroup
// uses in batches, so that it can be 0 in the first seconds.
func hasNone(m driver.MemoryStats) bool {
	named := slices.ContainsFunc(m.Measured, func(name string) bool { return name == "RSS" || name == "Usage" })
	return named && m.RSS == 0 && m.Usage == 0
}

func checkUsage(b *bench, of string, c driver.CPUStats, m driver.MemoryStats) {
	measures(b, of+": cpu", c.Measured, driver.CPUMeasures, map[string]float64{
		"Percent": c.Percent, "System Mode": c.SystemMode, "User Mode": c.UserMode, "Total Ticks": c.TotalTicks,
		"Throttled Periods": float64(c.ThrottledPeriods), "Throttled Time": float64(c.ThrottledTime),
	})
	measures(b, of+": memory", m.Measured, driver.MemoryMeasures, map[string]float64{
		"RSS": float64(m.RSS), "Cache": float64(m.Cache), "Swap": float64(m.Swap), "Mapped File": float64(m.MappedFile), "Usage": float64(m.Usage),
		"Max Usage": float64(m.MaxUsage), "Kernel Usage": float64(m.KernelUsage), "Kernel Max Usage": float64(m.KernelMaxUsage),
	})
}

func checkIO(b *bench, before, now driver.IOStats) {
	values := func(s driver.IOStats) map[string]float64 {
		return map[string]float64{"Read Bytes": float64(s.ReadBytes), "Written Bytes": float64(s.WrittenBytes), "Reads": float64(s.Reads), "Writes": float64(s.Writes)}
	}
	measures(b, "the task: io", now.Measured, driver.IOMeasures, values(now))
	for name, v := range values(before) {
		if values(now)[name] < v {
			b.t.Errorf("the task: io: %s fell from %v to %v", name, v, values(now)[name])
		}
	}
}

func measures(b *bench, of string, measured, known []string, values map[string]float64) {
	for _, name := range measured {
		if !slices.Contains(known, name) {
			b.t.Errorf("%s: Measured names %q; known are %q", of, name, known)
		}
	}
	for name, v := range values {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0) || v < 0:
			b.t.Errorf("%s: %s is %v", of, name, v)
		case v != 0 && !slices.Contains(measured, name) && name != "Total Ticks":
			b.t.Errorf("%s: %s is %v and not in Measured", of, name, v)
		}
	}
}

func checkStatsInterval(b *bench) {
	if b.subject.Foreign {
		b.t.Skipf("its protocol does not say so")
	}
	for _, d := range []time.Duration{0, -time.Second} {
		ctx, cancel := context.WithCancel(b.ctx)
		_, err := b.d.TaskStats(ctx, d)
		cancel()
		if errdefs.IsUnimplemented(err) {
			b.t.Skipf("the driver says that it cannot measure its tasks")
		}
		b.refused("stats every "+d.String(), err, errdefs.InvalidArgument)
	}
}

// checkStatsSlowReader reads the driver's channel directly, since a connection buffers
// samples itself.
func checkStatsSlowReader(b *bench) {
	if !b.subject.InProcess {
		b.t.Skipf("checked in process only: a connection buffers")
	}
	config, _ := b.start(forever)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples := b.samples(ctx)
	of := func() driver.TaskStats {
		for {
			sample, ok := conformance.Receive(b.t, samples, "a sample of the task")
			if !ok {
				b.t.Fatalf("the stream of stats ended though a task still runs")
			}
			for _, s := range sample {
				if s.TaskID == config.ID {
					return s
				}
			}
		}
	}
	of()
	const pause = 500 * time.Millisecond
	select {
	case <-time.After(pause):
	case <-b.ctx.Done():
	}
	read := time.Now()
	if s := of(); s.Time.Before(read.Add(-pause / 2)) {
		b.t.Errorf("the sample after a pause of %s was measured %s before its end: an old one was kept for the reader", pause, read.Sub(s.Time))
	}
}

// events opens the stream of events. The check is skipped if the driver has none.
func (b *bench) events(ctx context.Context) <-chan driver.TaskEvent {
	events, err := b.d.TaskEvents(ctx)
	if errdefs.IsUnimplemented(err) {
		b.t.Skipf("the driver says that it has no events")
	}
	if err != nil {
		b.t.Fatalf("TaskEvents: %v", err)
	}
	return events
}

func checkEvents(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	events := b.events(ctx)
	conformance.GoesOn(b.t, events, "the events", func(driver.TaskEvent) {})
	cancel()
	conformance.Ended(b.t, events, "the events")
}
