// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statscheck

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/errdefs"
	stats "github.com/drover-project/drover/sdk/stats/v1"
)

var checks = []Check{
	{"info", "info is complete, always the same, and its schema is sound", nil, checkInfo},
	{"series", "parts and series are named once, with a kind, a known unit and sound labels", nil, checkSeries},
	{"tasks", "values of tasks are of tasks that the collector was told of, also in another process, and end with them", needsTasks, checkTasks},
	{"config-again", "the same config may be set again at any time, also while somebody listens", nil, checkConfigAgain},
	{"collect", "the first sample comes at once, the next after an interval, and the stream ends with its context", nil, checkCollect},
	{"interval", "an interval that is not above zero is refused", nil, checkInterval},
	{"complete", "a sample has every part and series that Info names, or says why not, and no others", nil, checkComplete},
	{"values", "values are finite, not negative, and do not contradict each other", nil, checkValues},
	{"named-once", "cores, file systems, disks, interfaces, sensors and values are told once each", nil, checkNamedOnce},
	{"counters", "what counts never goes back", nil, checkCounters},
	{"streams-apart", "streams have each their own interval, and the end of one is none of another", nil, checkStreamsApart},
	{"slow-reader", "a slow reader gets fewer samples, never old ones", nil, checkSlowReader},
	{"nothing-behind", "nothing stays behind a stream that has ended", nil, checkNothingBehind},
	{"fresh-process", "another process measures the same after the first was killed", nil, checkDeath},
}

func checkInfo(b *bench) {
	info := b.c.Info()
	conformance.CheckInfo(b.t, info.Name, info.ConfigSchema, info, b.c.Info())
	if len(info.Parts)+len(info.Series) == 0 {
		b.t.Errorf("it names no part and no series: what does it measure?")
	}
}

var (
	seriesName = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$`)
	labelName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

func checkSeries(b *bench) {
	info := b.c.Info()
	told := map[string]bool{}
	for _, p := range info.Parts {
		if !slices.Contains(stats.Parts, p) || told[string(p)] {
			b.t.Errorf("the part %q is unknown or named twice", p)
		}
		told[string(p)] = true
	}
	for _, s := range info.Series {
		if !seriesName.MatchString(s.Name) || told[s.Name] {
			b.t.Errorf("the series %q is named twice, as a part is, or not in lower case letters, digits, _ and .", s.Name)
		}
		told[s.Name] = true
		if s.Kind != stats.Gauge && s.Kind != stats.Counter && s.Kind != stats.Histogram {
			b.t.Errorf("the series %q has no kind", s.Name)
		}
		checkBounds(b, s)
		if s.PerTask && !stats.Has(b.c, stats.FeatureTasks) {
			b.t.Errorf("the series %q is of tasks, and there is no SetTasks that says which there are", s.Name)
		}
		if !slices.Contains(stats.Units, s.Unit) {
			b.t.Errorf("the series %q has the unknown unit %q", s.Name, s.Unit)
		}
		if s.Description == "" {
			b.t.Errorf("the series %q has no description", s.Name)
		}
		labels := map[string]bool{}
		for _, l := range s.Labels {
			if !labelName.MatchString(l) || labels[l] {
				b.t.Errorf("the series %q: the label %q is there twice or not in lower case letters, digits and _", s.Name, l)
			}
			labels[l] = true
		}
	}
}

// checkBounds checks the buckets of a series.
func checkBounds(b *bench, s stats.Series) {
	if s.Kind != stats.Histogram {
		if len(s.Bounds) > 0 {
			b.t.Errorf("the series %q has bounds and is no histogram", s.Name)
		}
		return
	}
	if len(s.Bounds) == 0 || len(s.Bounds) > stats.MaxBounds {
		b.t.Errorf("the histogram %q has %d bounds; it needs 1 to %d", s.Name, len(s.Bounds), stats.MaxBounds)
	}
	for i, v := range s.Bounds {
		if math.IsNaN(v) || math.IsInf(v, 0) || i > 0 && v <= s.Bounds[i-1] {
			b.t.Errorf("the histogram %q: the bounds %v are not finite and ascending", s.Name, s.Bounds)
			return
		}
	}
}

func needsTasks(c stats.Collector) bool { return stats.Has(c, stats.FeatureTasks) }

func checkTasks(b *bench) {
	info := b.c.Info()
	perTask := map[string]bool{}
	for _, s := range info.Series {
		if s.PerTask {
			perTask[s.Name] = true
		}
	}
	if len(perTask) == 0 {
		b.t.Errorf("it has SetTasks and no series with PerTask: what does it measure of tasks?")
	}
	one, other := taskNumber(1), taskNumber(2)
	set := func(tasks ...stats.Task) {
		for range 2 { // it is idempotent
			if err := b.c.(stats.TaskCollector).SetTasks(b.ctx, tasks); err != nil {
				b.t.Fatalf("SetTasks(%d tasks): %v", len(tasks), err)
			}
		}
	}
	sound := func(s stats.Sample, tasks ...stats.Task) {
		for _, v := range s.Values {
			known := slices.ContainsFunc(tasks, func(t stats.Task) bool { return t.ID == v.Task })
			switch {
			case perTask[v.Series] && !known:
				b.t.Errorf("a value of %s is of the task %q, which does not run", v.Series, v.Task)
			case !perTask[v.Series] && v.Task != "":
				b.t.Errorf("a value of %s names the task %q, and the series has no PerTask", v.Series, v.Task)
			}
		}
	}
	set(one, other)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples := b.collect(ctx, b.subject.Interval)
	sound(b.next(samples), one, other)
	set(other) // one has ended, while the stream is open
	b.next(samples)
	b.next(samples) // two samples may have been under way
	sound(b.next(samples), other)
	set()
	b.next(samples)
	b.next(samples)
	sound(b.next(samples))
	cancel()
	b.die()
	b.open()
	set(one)
	again, end := context.WithCancel(b.ctx)
	defer end()
	sound(b.next(b.collect(again, time.Hour)), one)
}

// taskNumber returns the n-th of some tasks, which do not exist on the machine.
func taskNumber(n int) stats.Task {
	alloc := fmt.Sprintf("4f0c3a1e-0000-4000-8000-%012d", n)
	return stats.Task{
		ID: alloc + "/check", Namespace: "default", JobID: "check", TaskGroup: "check", AllocID: alloc, Name: "check", Driver: "raw_exec",
		DriverID: alloc + "/check/1",
	}
}

func checkConfigAgain(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples := b.collect(ctx, b.subject.Interval)
	b.next(samples)
	if err := b.c.SetConfig(b.ctx, b.config); err != nil {
		b.t.Errorf("SetConfig a second time: %v", err)
	}
	b.next(samples)
}

func checkCollect(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	slow := b.collect(ctx, time.Hour)
	if s := b.next(slow); s.Time.IsZero() || time.Since(s.Time).Abs() > time.Hour {
		b.t.Errorf("the sample's time is %s", s.Time)
	}
	cancel()
	conformance.Ended(b.t, slow, "the samples")
	first, second := b.two()
	if !second.Time.After(first.Time) {
		b.t.Errorf("the second sample is of %s and the first of %s", second.Time, first.Time)
	}
}

func checkInterval(b *bench) {
	for _, d := range []time.Duration{0, -time.Second} {
		ctx, cancel := context.WithCancel(b.ctx)
		if _, err := b.c.Collect(ctx, d); !errdefs.IsInvalidArgument(err) {
			b.t.Errorf("Collect every %s: %v, want InvalidArgument", d, err)
		}
		cancel()
	}
}

func checkStreamsApart(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	short, end := context.WithCancel(b.ctx)
	defer end()
	one, other := b.collect(short, b.subject.Interval), b.collect(ctx, b.subject.Interval)
	b.next(one)
	b.next(other)
	rare, stop := context.WithCancel(b.ctx)
	defer stop()
	b.next(b.collect(rare, time.Hour))
	end()
	conformance.Ended(b.t, one, "one of the streams")
	for range 3 {
		b.next(other)
	}
}

// checkSlowReader reads the collector's channel directly, since a connection buffers
// samples itself.
func checkSlowReader(b *bench) {
	if !b.subject.InProcess {
		b.t.Skipf("checked in process only: a connection buffers")
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	samples := b.collect(ctx, b.subject.Interval)
	b.next(samples)
	pause := 6 * b.subject.Interval
	select {
	case <-time.After(pause):
	case <-b.ctx.Done():
	}
	read := time.Now()
	b.next(samples) // one sample may have been in flight
	if s := b.next(samples); s.Time.Before(read.Add(-2 * b.subject.Interval)) {
		b.t.Errorf("the second sample after a pause of %s was measured %s before its end: samples are queued", pause, read.Sub(s.Time))
	}
}

func checkNothingBehind(b *bench) {
	if !b.subject.InProcess {
		b.t.Skipf("checked in process only")
	}
	const streams = 20
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var open []<-chan stats.Sample
	for range streams {
		open = append(open, b.collect(ctx, b.subject.Interval))
	}
	for _, s := range open {
		b.next(s)
	}
	cancel()
	for _, s := range open {
		conformance.Ended(b.t, s, "a stream")
	}
	// Other goroutines come and go meanwhile, so only a growth by half the number of
	// streams counts as a leak.
	for runtime.NumGoroutine() >= before+streams/2 {
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("%d goroutines before %d streams, %d after their end", before, streams, runtime.NumGoroutine())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// deaths is how often a collector is killed until two processes in a row have measured the
// same: what the machine has, mounts for example, may change meanwhile.
const deaths = 5

func checkDeath(b *bench) {
	before := b.c.Info()
	for n := 1; ; n++ {
		first, _ := b.two()
		b.die()
		b.open()
		if after := b.c.Info(); !reflect.DeepEqual(before, after) {
			b.t.Errorf("one process said %+v and the next %+v", before, after)
		}
		again, _ := b.two()
		one, other := names(first), names(again)
		switch {
		case reflect.DeepEqual(one, other):
			return
		case n == deaths:
			b.t.Errorf("one process measured %q and the next %q", one, other)
			return
		}
	}
}
