// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// general encodes and decodes with the codec of all other messages.
func general(t *testing.T, v any) []byte {
	t.Helper()
	out, err := newWireCodec().general.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHeartbeatsAreTheSameInBothCodecs(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, want := range []beatMessage{
		{},
		{Number: 1, Seen: model.ClusterPoint{ClusterID: "c", TermID: "t", Index: 2}},
		{Number: math.MaxUint64, Seen: model.ClusterPoint{ClusterID: strings.Repeat("c", 36), TermID: long, Index: math.MaxUint64}},
		{Number: 200, Seen: model.ClusterPoint{ClusterID: strings.Repeat("c", 70_000), Index: 70_000}},
	} {
		var got beatMessage
		if err := newWireCodec().decode(want.encode(), &got, nil); err != nil || got != want {
			t.Errorf("the general codec reads %+v, %v; want %+v", got, err, want)
		}
		got = beatMessage{Number: 9, Seen: model.ClusterPoint{ClusterID: "c", TermID: "before", Index: 9}}
		if !got.decode(general(t, &want)) || got != want {
			t.Errorf("of the general codec's bytes %+v is read, want %+v", got, want)
		}
	}
}

func TestAHeartbeatThatIsWrittenOtherwiseIsReadByTheGeneralCodec(t *testing.T) {
	type newer struct {
		Number uint64
		Seen   model.ClusterPoint
		More   map[string]int
	}
	got := beatMessage{Number: 5, Seen: model.ClusterPoint{ClusterID: "before"}}
	if err := serverCodec(nil).Unmarshal(general(t, &newer{Number: 7, More: map[string]int{"a": 1}}), &got); err != nil || got != (beatMessage{Number: 7}) {
		t.Errorf("%+v, %v", got, err)
	}
	got = beatMessage{Number: 5, Seen: model.ClusterPoint{ClusterID: "before"}}
	if err := serverCodec(nil).Unmarshal([]byte{0x80}, &got); err != nil || got != (beatMessage{}) {
		t.Errorf("of an empty message %+v, %v", got, err)
	}
	whole := (&beatMessage{Number: 300, Seen: model.ClusterPoint{ClusterID: "cluster", TermID: strings.Repeat("t", 40), Index: 1000}}).encode()
	for i := range whole {
		if err := serverCodec(nil).Unmarshal(whole[:i], &got); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a message", i, len(whole))
		}
		for _, b := range []byte{0x00, 0x80, 0x8f, 0xa5, 0xc1, 0xcf, 0xdb, 0xff} {
			bad := append([]byte(nil), whole...)
			bad[i] = b
			_ = serverCodec(nil).Unmarshal(bad, &got) // it may be another message, and must not panic
		}
	}
}

func TestAnswersToHeartbeatsAreReadByTheGeneralCodec(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = strings.Repeat("s", i) + ":4647"
	}
	lease := &Lease{TTL: 8 * time.Second, Index: 1 << 40, Servers: many, ClusterID: "c"}
	for _, want := range []*toNode{
		{Beat: &beatAnswer{Number: 3}},
		{Beat: &beatAnswer{Number: 1 << 33, Lease: lease}},
		{Beat: &beatAnswer{Number: 1, Lease: &Lease{TTL: time.Second, Servers: many[:3]}}},
		{Beat: &beatAnswer{Number: 1, Lease: &Lease{TTL: time.Second, Missing: []string{"hash"}, Servers: many[:1]}}},
		{Beat: &beatAnswer{Number: 1, Lease: &Lease{Servers: many[:1], Now: time.Unix(5, 0).UTC(), Version: 7, Identity: "id"}}},
		{Beat: &beatAnswer{Number: 1, Lease: lease}, CallID: "a call"},
		{Beats: true},
	} {
		data, err := newWireCodec().Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got toNode
		if err := newWireCodec().Unmarshal(data, &got); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("%+v (%+v) is read, %v; want %+v (%+v)", got, got.Beat, err, want, want.Beat)
		}
	}
}

func TestStrangersThatAreSentAwayComeBackOneAfterAnother(t *testing.T) {
	var d door
	now := time.Now()
	last := time.Duration(0)
	for range 1000 {
		wait := d.later(now)
		if wait <= last {
			t.Fatalf("one waits for %s, the one before for %s", wait, last)
		}
		last = wait
	}
	if wait := d.later(now.Add(time.Minute)); wait != strangersEvery {
		t.Errorf("when all are back, one waits for %s", wait)
	}
	for range 100_000 {
		if wait := d.later(now); wait > longestStranger {
			t.Fatalf("one waits for %s", wait)
		}
	}
}

// BenchmarkHeartbeat is what encoding takes on a server for one heartbeat and its answer.
func BenchmarkHeartbeat(b *testing.B) {
	c := serverCodec(nil)
	data := (&beatMessage{Number: 300, Seen: model.ClusterPoint{ClusterID: strings.Repeat("c", 36), TermID: strings.Repeat("t", 36), Index: 1000}}).encode()
	answer := &toNode{Beat: &beatAnswer{Number: 3, Lease: &Lease{TTL: 8 * time.Second, Index: 1 << 40, Servers: []string{"10.0.0.1:4647"}, ClusterID: strings.Repeat("c", 36)}}}
	b.ReportAllocs()
	var m beatMessage
	for b.Loop() {
		if err := c.Unmarshal(data, &m); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Marshal(answer); err != nil {
			b.Fatal(err)
		}
	}
}
