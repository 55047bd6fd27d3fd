// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package statsd tells metrics in the line protocol of statsd and in its two
// dialects: statsite's, which goes over TCP, and Datadog's, which has tags. It
// owns the lines and the connection. cmd/drover/daemon imports it.
//
// The protocol: https://github.com/statsd/statsd/blob/master/docs/metric_types.md,
// and https://docs.datadoghq.com/developers/dogstatsd/datagram_shell.
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

// Dialect says what the receiver understands.
type Dialect uint8

// The dialects. Statsd and Statsite have no labels: their values are put at the
// end of the name, in the order of the labels' names.
const (
	Statsd    Dialect = iota // over UDP
	Statsite                 // the same over TCP
	DogStatsd                // over UDP or a datagram socket, with labels as tags
)

// maxPacket is what a datagram carries over an Ethernet without being split.
const maxPacket = 1432

// Sink implements telemetry.Sink.
type Sink struct {
	dialect          Dialect
	network, address string
	tags             []string

	conn net.Conn
	// before has the totals of the set before, by telemetry.Sample.Key: the
	// protocol wants what was added since.
	before map[string]total
}

type total struct {
	value float64
	count uint64
}

// New makes a sink. It connects when there is something to send, so that the
// receiver may come later. tags, as "team:core", go with every metric of DogStatsd.
// InvalidArgument: the address is none.
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
		return nil, errdefs.InvalidArgumentf("%q is no address; give HOST:PORT, as 127.0.0.1:8125: %w", address, err)
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

// fail gives the connection up: the next set makes another.
func (s *Sink) fail(err error) error {
	_ = s.conn.Close() // it is lost either way
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

// write adds the sample's line, if it has one: a counter or a summary to which
// nothing was added since the set before has none.
func (s *Sink) write(into *bytes.Buffer, m *telemetry.Sample, now map[string]total) {
	switch m.Kind {
	case telemetry.Gauge:
		if m.Value < 0 && s.dialect != DogStatsd {
			s.line(into, m, 0, "g", 1) // a sign alone would mean a change, so it is set to zero first
		}
		s.line(into, m, m.Value, "g", 1)
	case telemetry.Counter:
		if added, _ := s.since(m, now); added > 0 {
			s.line(into, m, added, "c", 1)
		}
	case telemetry.Summary:
		// One line for all observations: their mean, at the rate that makes the
		// receiver count them all.
		if sum, n := s.since(m, now); n > 0 {
			s.line(into, m, sum/float64(n), "ms", 1/float64(n))
		}
	}
}

// since is what was added since the set before. The first set of a process has
// everything since its beginning.
func (s *Sink) since(m *telemetry.Sample, now map[string]total) (float64, uint64) {
	key := m.Key()
	now[key] = total{m.Value, m.Count}
	before := s.before[key]
	if before.value > m.Value || before.count > m.Count { // it began anew
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

// What has a meaning in a line cannot be in a name or a tag.
var (
	nameClean = strings.NewReplacer(":", "_", "|", "_", "@", "_", "#", "_", "\n", "_", " ", "_", "/", "_")
	tagClean  = strings.NewReplacer("|", "_", ",", "_", "\n", "_", "#", "_")
)

func clean(name string) string { return nameClean.Replace(name) }
