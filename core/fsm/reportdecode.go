// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"encoding/binary"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// reportReader decodes the output of a reportWriter. After the first error it returns
// only zeros, so that err needs to be checked only at the end.
type reportReader struct {
	data    []byte
	strings []string
	at      int64
	err     error
}

// unpackReports decodes reports. It returns an error of class InvalidArgument for data
// that it cannot decode.
func unpackReports(data []byte, at int64) ([]*model.AllocReport, error) {
	r := &reportReader{data: data}
	for range r.count() {
		r.strings = append(r.strings, string(r.bytes(r.uint())))
	}
	var out []*model.AllocReport
	for range r.count() {
		r.at = at
		out = append(out, r.report())
		if r.err != nil {
			break
		}
	}
	if r.err == nil && len(r.data) > 0 {
		r.fail()
	}
	if r.err != nil {
		return nil, r.err
	}
	return out, nil
}

func (r *reportReader) fail() {
	r.err = errdefs.InvalidArgumentf("the reports of nodes in a log entry cannot be read; the entry is damaged, or another version wrote it")
	r.data = nil
}

func (r *reportReader) uint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reportReader) int() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.data = r.data[n:]
	return v
}

// count reads the number of elements that follow, each of at least one byte.
func (r *reportReader) count() int {
	n := r.uint()
	if n > uint64(len(r.data)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reportReader) bytes(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.fail()
		return nil
	}
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

func (r *reportReader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reportReader) text() string {
	n := r.uint()
	if n < uint64(len(knownStrings)) {
		return knownStrings[n]
	}
	if n -= uint64(len(knownStrings)); n < uint64(len(r.strings)) {
		return r.strings[n]
	}
	r.fail()
	return ""
}

func (r *reportReader) time() int64 {
	r.at += r.int()
	return r.at
}

func (r *reportReader) id(raw bool) string {
	if raw {
		return r.text()
	}
	if b := r.bytes(16); len(b) == 16 {
		return uuidText(b)
	}
	return ""
}

func (r *reportReader) report() *model.AllocReport {
	flags := r.byte()
	out := &model.AllocReport{ID: r.id(flags&reportRawID != 0)}
	if flags&reportStatus != 0 {
		out.ClientStatus, out.ClientDescription = r.text(), r.text()
	}
	if flags&reportNetwork != 0 {
		out.Network = &model.AllocNetworkStatus{}
		if err := entryCodec.Decode([]byte(r.text()), out.Network); err != nil && r.err == nil {
			r.fail()
		}
	}
	if flags&reportHealth != 0 {
		out.Health = &model.HealthReport{DeploymentID: r.id(flags&reportRawDeployment != 0), Healthy: flags&reportHealthy != 0}
	}
	n := r.count()
	if n > 0 {
		out.Tasks = make(map[string]*model.TaskReport, n)
	}
	for range n {
		name := r.text()
		out.Tasks[name] = r.task()
	}
	return out
}

func (r *reportReader) task() *model.TaskReport {
	flags := r.byte()
	t := &model.TaskReport{
		Failed: flags&taskFailed != 0, Whole: flags&taskWhole != 0,
		State: r.text(), Restarts: r.uint(),
	}
	if flags&taskPaused != 0 {
		t.Paused = r.text()
	}
	t.Before = r.uint()
	for range r.count() {
		t.Events = append(t.Events, r.event())
	}
	if flags&taskLastRestart != 0 {
		t.LastRestart = r.timeAmong(t.Events)
	}
	if flags&taskStartedAt != 0 {
		t.StartedAt = r.timeAmong(t.Events)
	}
	if flags&taskFinishedAt != 0 {
		t.FinishedAt = r.timeAmong(t.Events)
	}
	return t
}

func (r *reportReader) timeAmong(events []*model.TaskEvent) *int64 {
	n := r.uint()
	at := int64(0)
	switch {
	case n == timeNone:
	case n == timeExplicit:
		at = r.time()
	case n-timeOfEvent < uint64(len(events)):
		at = events[n-timeOfEvent].Time
	default:
		r.fail()
	}
	return &at
}
