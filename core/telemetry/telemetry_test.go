// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package telemetry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheLongestPrefixDecides(t *testing.T) {
	f, err := telemetry.NewFilter([]string{"-nomad.client", "+nomad.client.allocs", "-nomad.client.allocs.memory", "+nomad.x", "-nomad.x"}, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"nomad.raft.apply": true, "nomad.client.host.cpu.user": false, "nomad.client.allocs.cpu.user": true,
		"nomad.client.allocs.memory.rss": false, "nomad.x.y": false,
	} {
		if f.Allows(name) != want {
			t.Errorf("%s is allowed: %v", name, !want)
		}
	}
	if f, err = telemetry.NewFilter([]string{"+a"}, false); err != nil || f.Allows("b") || !f.Allows("a.b") {
		t.Errorf("filter_default = false lets through what no rule allows, or not what one does (%v)", err)
	}
	for _, bad := range []string{"", "+", "nomad"} {
		if _, err := telemetry.NewFilter([]string{bad}, true); !errdefs.IsInvalidArgument(err) {
			t.Errorf("the rule %q: %v", bad, err)
		}
	}
}

func names(set *telemetry.Set) []string {
	var out []string
	for _, s := range set.Samples {
		if !strings.HasPrefix(s.Name, "drover.telemetry.") {
			out = append(out, s.Name)
		}
	}
	return out
}

func gauges(names ...string) telemetry.Source {
	return func(context.Context) []telemetry.Sample {
		var out []telemetry.Sample
		for _, n := range names {
			out = append(out, telemetry.Sample{Name: n})
		}
		return out
	}
}

func TestASetIsOrderedAndFilteredAndNamesHaveOneSource(t *testing.T) {
	f, err := telemetry.NewFilter([]string{"-secret"}, true)
	if err != nil {
		t.Fatal(err)
	}
	r := telemetry.New(telemetry.Config{Filter: f})
	r.Add(gauges("c", "a", "secret.x", "a"))
	r.Add(gauges("b", "a"))
	if got := names(r.Collect(t.Context())); !slices.Equal(got, []string{"a", "a", "b", "c"}) {
		t.Errorf("collected %v", got)
	}
}

// sink keeps what it is given; while hold is open it does not finish.
type sink struct {
	sets   chan *telemetry.Set
	hold   chan struct{}
	fail   atomic.Pointer[error]
	closed chan struct{}
}

func newSink() *sink {
	return &sink{sets: make(chan *telemetry.Set, 1000), closed: make(chan struct{})}
}

func (s *sink) Publish(ctx context.Context, set *telemetry.Set) error {
	s.sets <- set
	if s.hold != nil {
		<-s.hold
	}
	if err := s.fail.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *sink) Close() error { close(s.closed); return nil }

func TestNothingIsCollectedWithoutASink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := telemetry.New(telemetry.Config{Interval: time.Second})
		r.Add(func(context.Context) []telemetry.Sample { t.Error("collected"); return nil })
		r.Run(t.Context()) // returns at once
	})
}

func TestASlowSinkDelaysNobodyAndItsLossesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := telemetry.New(telemetry.Config{Interval: time.Second})
		r.Add(gauges("a"))
		slow, quick := newSink(), newSink()
		slow.hold = make(chan struct{})
		r.Attach("slow", slow)
		r.Attach("quick", quick)
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		time.Sleep(10*time.Second + time.Millisecond) // of the bubble's clock
		synctest.Wait()
		if len(slow.sets) != 1 || len(quick.sets) != 10 {
			t.Errorf("the slow sink has %d sets and the quick one %d", len(slow.sets), len(quick.sets))
		}
		dropped := -1.0
		for _, s := range r.Collect(ctx).Samples {
			if s.Name == "drover.telemetry.dropped_sets" && s.Labels["sink"] == "slow" {
				dropped = s.Value
			}
		}
		if dropped != 9 {
			t.Errorf("%v sets are counted as dropped, want 9", dropped)
		}
		close(slow.hold)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(slow.sets) < 2 {
			t.Error("a sink that is free again gets nothing")
		}
		cancel()
		<-ended
		<-slow.closed
		<-quick.closed
	})
}

func TestAnErrorOfASinkIsLoggedWhenItBeginsAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		r := telemetry.New(telemetry.Config{Interval: time.Second, Logger: hclog.New(&hclog.LoggerOptions{Output: &text})})
		s := newSink()
		broken := errors.New("no route")
		s.fail.Store(&broken)
		r.Attach("statsd", s)
		ended := make(chan struct{})
		go func() { r.Run(ctx); close(ended) }()
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		s.fail.Store(nil)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		cancel()
		<-ended
		if n := strings.Count(text.String(), "no route"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, text.String())
		}
		if !strings.Contains(text.String(), "again") {
			t.Errorf("the end of the failure is not logged:\n%s", text.String())
		}
	})
}

func TestTheRecorderKeepsTotalsAndWhatWasRecent(t *testing.T) {
	r := telemetry.NewRecorder(map[string]string{"host": "h"}, time.Hour, time.Hour)
	r.Count("starts", 2, map[string]string{"job": "web"})
	r.Count("starts", 3, map[string]string{"job": "web"})
	r.Count("starts", 1, map[string]string{"job": "db"})
	r.AddSample([]string{"raft", "apply time"}, 4)
	r.AddSample([]string{"raft", "apply time"}, 6)
	r.SetGauge([]string{"raft", "peers"}, 3)
	got := map[string]telemetry.Sample{}
	for _, s := range r.Samples(t.Context()) {
		got[s.Name+"/"+s.Labels["job"]] = s
		if s.Labels["host"] != "h" {
			t.Errorf("%s has the labels %v", s.Name, s.Labels)
		}
	}
	if s := got["starts/web"]; s.Kind != telemetry.Counter || s.Value != 5 || s.Recent == nil || s.Recent.Count != 2 || s.Recent.Sum != 5 {
		t.Errorf("the counter is %+v, recent %+v", s, s.Recent)
	}
	if s := got["raft.apply_time/"]; s.Kind != telemetry.Summary || s.Value != 10 || s.Count != 2 || s.Recent == nil || s.Recent.Mean != 5 {
		t.Errorf("the summary is %+v, recent %+v", s, s.Recent)
	}
	if s := got["raft.peers/"]; s.Kind != telemetry.Gauge || s.Value != 3 || len(got) != 4 {
		t.Errorf("the gauge is %+v of %d series", s, len(got))
	}
}

func TestASourceThatPanicsCostsNoOtherOne(t *testing.T) {
	r := telemetry.New(telemetry.Config{})
	r.Add(gauges("a"))
	r.Add(func(context.Context) []telemetry.Sample { panic("no state of ours is like this") })
	r.Add(gauges("b"))
	before := panics.Caught()
	if got := names(r.Collect(t.Context())); !slices.Equal(got, []string{"a", "b"}) || panics.Caught()-before != 1 {
		t.Errorf("collected %q, %d panics", got, panics.Caught()-before)
	}
}
