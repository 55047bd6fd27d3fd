// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statsd_test

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/core/telemetry/statsd"
	"github.com/drover-project/drover/sdk/errdefs"
)

func labels(kv ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		out[kv[i]] = kv[i+1]
	}
	return out
}

func publish(t *testing.T, s *statsd.Sink, samples ...telemetry.Sample) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Publish(ctx, &telemetry.Set{Time: time.Now(), Samples: samples}); err != nil {
		t.Fatal(err)
	}
}

// receiver listens for datagrams.
func receiver(t *testing.T, network, address string) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// lines reads datagrams until there are n lines.
func lines(t *testing.T, c net.PacketConn, n int) []string {
	t.Helper()
	var out []string
	buf := make([]byte, 65536)
	for len(out) < n {
		size, _, err := c.ReadFrom(buf)
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		if size > 1432 {
			t.Errorf("a datagram of %d bytes is split on the way", size)
		}
		out = append(out, strings.Split(strings.TrimSuffix(string(buf[:size]), "\n"), "\n")...)
	}
	return out
}

func sink(t *testing.T, d statsd.Dialect, address string, tags ...string) *statsd.Sink {
	t.Helper()
	s, err := statsd.New(d, address, tags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStatsdGetsNamesWithTheirLabelsAndIncrements(t *testing.T) {
	c := receiver(t, "udp", "127.0.0.1:0")
	s := sink(t, statsd.Statsd, c.LocalAddr().String())
	at := labels("host", "n1", "task", "web:1")
	publish(t, s,
		telemetry.Sample{Name: "nomad.client.uptime", Value: 1.5, Labels: at},
		telemetry.Sample{Name: "nomad.client.temp", Value: -3},
		telemetry.Sample{Name: "nomad.runs", Kind: telemetry.Counter, Value: 7},
		telemetry.Sample{Name: "nomad.took", Kind: telemetry.Summary, Value: 40, Count: 4},
		telemetry.Sample{Name: "nomad.sizes", Kind: telemetry.Histogram, Value: 9, Count: 6, Buckets: &telemetry.Buckets{Counts: []uint64{6}}},
		telemetry.Sample{Name: "nomad.odd", Value: math.NaN()},
	)
	want := []string{"nomad.client.uptime.n1.web_1:1.5|g", "nomad.client.temp:0|g", "nomad.client.temp:-3|g", "nomad.runs:7|c", "nomad.took:10|ms|@0.25", "nomad.sizes.count:6|c", "nomad.sizes.sum:9|c"}
	if got := lines(t, c, len(want)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	publish(t, s,
		telemetry.Sample{Name: "nomad.runs", Kind: telemetry.Counter, Value: 9},
		telemetry.Sample{Name: "nomad.took", Kind: telemetry.Summary, Value: 40, Count: 4}, // nothing new
	)
	if got := lines(t, c, 1); !slices.Equal(got, []string{"nomad.runs:2|c"}) {
		t.Errorf("the second time came %q", got)
	}
}

func TestDatadogGetsLabelsAsTags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dd.sock")
	c := receiver(t, "unixgram", path)
	s := sink(t, statsd.DogStatsd, "unix://"+path, "team:core")
	publish(t, s, telemetry.Sample{Name: "nomad.x", Value: -2, Labels: labels("task", "a,b", "job", "shop")})
	if got := lines(t, c, 1); got[0] != "nomad.x:-2|g|#job:shop,task:a_b,team:core" {
		t.Errorf("got %q", got)
	}
}

func TestManyMetricsGoInDatagramsThatAreNotSplit(t *testing.T) {
	c := receiver(t, "udp", "127.0.0.1:0")
	s := sink(t, statsd.Statsd, c.LocalAddr().String())
	var all []telemetry.Sample
	for i := range 500 {
		all = append(all, telemetry.Sample{Name: fmt.Sprintf("nomad.client.allocs.memory.usage.%04d", i), Value: float64(i)})
	}
	done := make(chan []string, 1)
	go func() { done <- lines(t, c, len(all)) }()
	publish(t, s, all...)
	got := <-done
	slices.Sort(got)
	if len(got) != 500 || got[499] != "nomad.client.allocs.memory.usage.0499:499|g" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

func TestStatsiteIsConnectedToAgainWhenItHasGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := sink(t, statsd.Statsite, l.Addr().String())
	gauge := telemetry.Sample{Name: "nomad.x", Value: 1}
	first := func() string {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	publish(t, s, gauge)
	if got := first(); got != "nomad.x:1|g\n" {
		t.Errorf("got %q", got)
	}
	// The connection is closed at its other end: some write finds that out.
	again := make(chan string, 1)
	go func() { again <- first() }()
	for failed := false; ; {
		err := s.Publish(t.Context(), &telemetry.Set{Samples: []telemetry.Sample{gauge}})
		failed = failed || err != nil
		select {
		case got := <-again:
			if got != "nomad.x:1|g\n" || !failed {
				t.Errorf("got %q, failed %t", got, failed)
			}
			return
		default:
		}
	}
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	for _, address := range []string{"", "localhost", "unix:///x"} {
		if _, err := statsd.New(statsd.Statsd, address, nil); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
