// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"encoding/binary"

	"github.com/drover-project/drover/core/model"
)

// Heartbeats and their answers are encoded and read here without reflection, because a
// server with thousands of idle nodes does little else. The bytes are MessagePack that the
// codec of all other messages reads and writes as well; fields that are empty are left out.
// What is written otherwise, by another release for example, goes through that codec.

// encode returns the message.
func (m *beatMessage) encode() []byte {
	out := make([]byte, 0, 64+len(m.Seen.ClusterID)+len(m.Seen.TermID))
	out = appendText(append(out, 0x82), "Number")
	out = appendNumber(out, m.Number)
	out = appendText(out, "Seen")
	out = appendText(append(out, 0x83), "ClusterID")
	out = appendText(out, m.Seen.ClusterID)
	out = appendText(out, "TermID")
	out = appendText(out, m.Seen.TermID)
	out = appendText(out, "Index")
	return appendNumber(out, m.Seen.Index)
}

// decode reads a message. It returns false if the general codec must read it. Texts that m
// had before are kept: they are the same in nearly all heartbeats of a node.
func (m *beatMessage) decode(data []byte) bool {
	r := plain{data: data, ok: true}
	var got beatMessage
	for range r.fields() {
		switch string(r.text()) {
		case "Number":
			got.Number = r.number()
		case "Seen":
			r.point(&m.Seen, &got.Seen)
		default:
			return false
		}
	}
	if !r.ok || len(r.data) > 0 {
		return false
	}
	*m = got
	return true
}

// point reads a ClusterPoint. before is one whose texts are used again.
func (r *plain) point(before, got *model.ClusterPoint) {
	for range r.fields() {
		switch string(r.text()) {
		case "ClusterID":
			got.ClusterID = kept(r.text(), before.ClusterID)
		case "TermID":
			got.TermID = kept(r.text(), before.TermID)
		case "Index":
			got.Index = r.number()
		default:
			r.ok = false
			return
		}
	}
}

// kept returns text as a string, which is before if both are equal.
func kept(text []byte, before string) string {
	if string(text) == before {
		return before
	}
	return string(text)
}

// encodeBeat returns the message if it is only the answer to a heartbeat.
func (m *toNode) encodeBeat() ([]byte, bool) {
	if m.Beat == nil || m.End != nil || m.Assignments != nil || m.CallID != "" || m.Beats || m.HasInput || m.Call.Method != "" || m.Call.Body != nil {
		return nil, false
	}
	lease := m.Beat.Lease
	if lease != nil && (lease.TTL < 0 || !lease.Now.IsZero() || lease.Version != 0 || lease.Identity != "" || len(lease.Missing) > 0) {
		return nil, false // the answer to a registration, or a rare one
	}
	out := appendText(append(make([]byte, 0, 192), 0x81), "Beat")
	if lease == nil {
		return appendNumber(appendText(append(out, 0x81), "Number"), m.Beat.Number), true
	}
	out = appendNumber(appendText(append(out, 0x82), "Number"), m.Beat.Number)
	out = appendText(append(appendText(out, "Lease"), 0x84), "TTL")
	out = appendNumber(out, uint64(lease.TTL))
	out = appendNumber(appendText(out, "Index"), lease.Index)
	out = appendText(appendText(out, "ClusterID"), lease.ClusterID)
	out = appendHead(appendText(out, "Servers"), 0x90, 0xdd, len(lease.Servers))
	for _, server := range lease.Servers {
		out = appendText(out, server)
	}
	return out, true
}

func appendText(out []byte, s string) []byte {
	if n := len(s); n < 32 {
		out = append(out, 0xa0|byte(n))
	} else {
		out = binary.BigEndian.AppendUint32(append(out, 0xdb), uint32(n))
	}
	return append(out, s...)
}

func appendNumber(out []byte, n uint64) []byte {
	if n < 0x80 {
		return append(out, byte(n))
	}
	return binary.BigEndian.AppendUint64(append(out, 0xcf), n)
}

// appendHead appends the head of a list or map of n values, of which short ones have a code
// of their own.
func appendHead(out []byte, short, long byte, n int) []byte {
	if n < 16 {
		return append(out, short|byte(n))
	}
	return binary.BigEndian.AppendUint32(append(out, long), uint32(n))
}

// plain reads MessagePack whose structure is known. ok is false after anything that does
// not fit.
type plain struct {
	data []byte
	ok   bool
}

// next returns the next value if it has one of the codes that first accepts.
func (r *plain) next(first func(byte) bool) (value []byte, holds int) {
	if !r.ok || len(r.data) == 0 || !first(r.data[0]) {
		r.ok = false
		return nil, 0
	}
	size, holds := token(r.data)
	if size == 0 || size > len(r.data) {
		r.ok = false
		return nil, 0
	}
	value, r.data = r.data[:size], r.data[size:]
	return value, holds
}

// fields returns the number of fields of a map.
func (r *plain) fields() int {
	_, holds := r.next(func(b byte) bool { return b >= 0x80 && b <= 0x8f })
	return holds / 2
}

// text returns a string, nil if the next value is none.
func (r *plain) text() []byte {
	value, _ := r.next(func(b byte) bool { return b >= 0xa0 && b <= 0xbf || b >= 0xd9 && b <= 0xdb })
	if value == nil {
		return nil
	}
	switch value[0] {
	case 0xd9:
		return value[2:]
	case 0xda:
		return value[3:]
	case 0xdb:
		return value[5:]
	}
	return value[1:]
}

func (r *plain) number() (n uint64) {
	value, _ := r.next(func(b byte) bool { return b <= 0x7f || b >= 0xcc && b <= 0xcf })
	if len(value) == 1 {
		return uint64(value[0])
	}
	for i := 1; i < len(value); i++ {
		n = n<<8 | uint64(value[i])
	}
	return n
}
