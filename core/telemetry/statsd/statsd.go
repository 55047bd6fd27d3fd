// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package statsd sends metrics in the statsd line protocol and two dialects: statsite,
// over TCP, and DogStatsD, with tags. It owns the lines and the connection.
// cmd/drover/daemon imports it.
//
// The protocol: https://github.com/statsd/statsd/blob/master/docs/metric_types.md, and
// https://docs.datadoghq.com/developers/dogstatsd/datagram_shell.
package statsd

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/telemetry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Dialect is the receiver's dialect of the protocol.
type Dialect uint8

// The dialects. Statsd and Statsite have no labels: the values of labels are appended
// to the name, in the order of the labels' names.
const (
	Statsd    Dialect = iota // over UDP
	Statsite                 // the same over TCP
	DogStatsd                // over UDP or a datagram socket, with labels as tags
)

// maxPacket is the largest datagram that fits into an Ethernet frame.
const maxPacket = 1432

// Sink implements telemetry.Sink.
type Sink struct {
	dialect          Dialect
	network, address string
	tags             []string

	conn net.Conn
	// before has the totals of the previous set, by telemetry.Sample.Key, because the
	// protocol sends differences.
	before map[string]total
}

type total struct {
	value float64
	count uint64
}

// New creates a sink. It connects when it sends, so the receiver may start later.
// tags, such as "team:core", are added to every metric of DogStatsD. InvalidArgument:
// the address is invalid.
func New(dialect Dialect, address string, tags []string) (*Sink, error) {
	s := &Sink{dialect: dialect, network: "udp", address: address, tags: tags, before: map[string]total{}}
	if path, ok := strings.CutPrefix(address, "unix://"); ok && dialect == DogStatsd {
		s.network, s.address = "unixgram", path
		return s, nil
	}
	if dialect == Statsite {
		s.network = "tcp"
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return nil, errdefs.InvalidArgumentf("%q is not an address; give HOST:PORT, as 127.0.0.1:8125: %w", address, err)
	}
	return s, nil
}

// Publish implements telemetry.Sink.
func (s *Sink) Publish(ctx context.Context, set *telemetry.Set) error {
	if s.conn == nil {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, s.network, s.address)
		if err != nil {
			return fmt.Errorf("connect to %s: %w", s.address, err)
		}
		s.conn = conn
	}
	if limit, ok := ctx.Deadline(); ok {
		if err := s.conn.SetWriteDeadline(limit); err != nil {
			return s.fail(err)
		}
	}
	now := make(map[string]total, len(s.before))
	var packet, line bytes.Buffer
	for i := range set.Samples {
		line.Reset()
		s.write(&line, &set.Samples[i], now)
		if packet.Len()+line.Len() > maxPacket && packet.Len() > 0 {
			if _, err := s.conn.Write(packet.Bytes()); err != nil {
				return s.fail(err)
			}
			packet.Reset()
		}
		packet.Write(line.Bytes())
	}
	s.before = now
	if packet.Len() == 0 {
		return nil
	}
	if _, err := s.conn.Write(packet.Bytes()); err != nil {
		return s.fail(err)
	}
	return nil
}

// fail closes the connection; the next set opens a new one.
func (s *Sink) fail(err error) error {
	_ = s.conn.Close() // the connection is broken anyway
	s.conn = nil
	return fmt.Errorf("send to %s: %w", s.address, err)
}

// Close implements telemetry.Sink.
func (s *Sink) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// write adds the line of a sample. A counter or summary that has not changed since the
// previous set has no line.
func (s *Sink) write(into *bytes.Buffer, m *telemetry.Sample, now map[string]total) {
	switch m.Kind {
	case telemetry.Gauge:
		if m.Value < 0 && s.dialect != DogStatsd {
			s.line(into, m, 0, "g", 1) // a sign would mean a change, so set it to zero first
		}
		s.line(into, m, m.Value, "g", 1)
	case telemetry.Counter:
		if added, _ := s.since(m, now); added > 0 {
			s.line(into, m, added, "c", 1)
		}
	case telemetry.Histogram:
		// The protocol has no buckets: the receiver gets how many observations there were
		// and their sum, from which it computes the mean.
		if sum, n := s.since(m, now); n > 0 {
			of := *m
			of.Name = m.Name + ".count"
			s.line(into, &of, float64(n), "c", 1)
			of.Name = m.Name + ".sum"
			s.line(into, &of, sum, "c", 1)
		}
	case telemetry.Summary:
		// One line for all observations: their mean, with the sample rate that makes
		// the receiver count all of them.
		if sum, n := s.since(m, now); n > 0 {
			s.line(into, m, sum/float64(n), "ms", 1/float64(n))
		}
	}
}

// since returns what was added since the previous set, or since the start of the
// process for the first set.
func (s *Sink) since(m *telemetry.Sample, now map[string]total) (float64, uint64) {
	key := m.Key()
	now[key] = total{m.Value, m.Count}
	before := s.before[key]
	if before.value > m.Value || before.count > m.Count { // it was reset
		before = total{}
	}
	return m.Value - before.value, m.Count - before.count
}

func (s *Sink) line(into *bytes.Buffer, m *telemetry.Sample, value float64, kind string, rate float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	into.WriteString(clean(m.Name))
	if s.dialect != DogStatsd {
		for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
			into.WriteByte('.')
			into.WriteString(clean(m.Labels[k]))
		}
	}
	into.WriteByte(':')
	into.WriteString(strconv.FormatFloat(value, 'f', -1, 64))
	into.WriteByte('|')
	into.WriteString(kind)
	if rate != 1 {
		into.WriteString("|@" + strconv.FormatFloat(rate, 'g', 9, 64))
	}
	if s.dialect == DogStatsd {
		s.writeTags(into, m)
	}
	into.WriteByte('\n')
}

func (s *Sink) writeTags(into *bytes.Buffer, m *telemetry.Sample) {
	sep := "|#"
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		into.WriteString(sep + clean(k) + ":" + tagClean.Replace(m.Labels[k]))
		sep = ","
	}
	for _, tag := range s.tags {
		into.WriteString(sep + tagClean.Replace(tag))
		sep = ","
	}
}

// Characters with a meaning in the protocol, which names and tags must not contain.
var (
	nameClean = strings.NewReplacer(":", "_", "|", "_", "@", "_", "#", "_", "\n", "_", " ", "_", "/", "_")
	tagClean  = strings.NewReplacer("|", "_", ",", "_", "\n", "_", "#", "_")
)

func clean(name string) string { return nameClean.Replace(name) }
