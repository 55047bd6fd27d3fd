// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"encoding/binary"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// reportReader decodes the output of a reportWriter. After the first error it returns
// only zeros, so that failed needs to be checked only at the end of a report.
type reportReader struct {
	form    *cursor
	own     *cursor // equals form, unless forms are stored apart
	width   int     // bytes that are stored of each id
	known   []string
	strings []string
	events  map[string]model.TaskEvent // the events without a form that were decoded, by their encoding
	at      int64
	clock   clock
	broken  bool // a value was impossible
}

// cursor reads values from bytes, one after another. After the first error it returns only
// zeros.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) fail() { c.rest, c.bad = nil, true }

func (c *cursor) uint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cursor) int() int64 {
	v, n := binary.Varint(c.rest)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// count reads the number of elements that follow, each of at least one byte.
func (c *cursor) count() int {
	n := c.uint()
	if n > uint64(len(c.rest)) {
		c.fail()
		return 0
	}
	return int(n)
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.fail()
		return nil
	}
	out := c.rest[:n]
	c.rest = c.rest[n:]
	return out
}

var errReports = errdefs.InvalidArgumentf("the reports of nodes in a log entry cannot be read; the entry is damaged, or another version wrote it")

// unpackReports decodes reports in one sequence. It returns an error of class
// InvalidArgument for data that it cannot decode.
func unpackReports(data []byte, at int64) ([]*model.AllocReport, error) {
	c := &cursor{rest: data}
	r := &reportReader{form: c, own: c, known: knownStrings, clock: newClock(at, false)}
	r.head(c)
	var out []*model.AllocReport
	for range c.count() {
		report, _ := r.report()
		if out = append(out, report); r.failed() {
			break
		}
	}
	if r.failed() || len(c.rest) > 0 {
		return nil, errReports
	}
	return out, nil
}

// unpackSplit decodes the output of packSplit. An id that is not stored, or of which only the
// beginning is, is "".
func unpackSplit(data []byte, at int64, millis bool) (reports []*model.AllocReport, short []shortID, err error) {
	c := &cursor{rest: data}
	r := &reportReader{own: c, known: splitStrings, clock: newClock(at, millis)}
	r.head(c)
	forms := slices.Clone(usualForms().bytes)
	for range c.count() {
		forms = append(forms, c.bytes(c.uint()))
	}
	if width := c.bytes(1); len(width) == 1 {
		r.width = int(width[0])
	}
	for range c.count() {
		number := c.uint()
		if number >= uint64(len(forms)) {
			return nil, nil, errReports
		}
		r.form = &cursor{rest: forms[number]}
		report, ids := r.report()
		if r.failed() || len(r.form.rest) > 0 {
			return nil, nil, errReports
		}
		reports, short = append(reports, report), append(short, ids)
	}
	if c.bad || len(c.rest) > 0 || r.width > 16 {
		return nil, nil, errReports
	}
	return reports, short, nil
}

// head reads the strings of an entry.
func (r *reportReader) head(c *cursor) {
	for range c.count() {
		r.strings = append(r.strings, string(c.bytes(c.uint())))
	}
}

func (r *reportReader) fail()        { r.broken = true }
func (r *reportReader) failed() bool { return r.broken || r.form.bad || r.own.bad }

func (r *reportReader) uint() uint64 { return r.form.uint() }
func (r *reportReader) int() int64   { return r.form.int() }
func (r *reportReader) vary() int64  { return r.own.int() }
func (r *reportReader) count() int   { return r.form.count() }

func (r *reportReader) byte() byte {
	if b := r.form.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reportReader) text() string {
	return r.numbered(r.form.uint())
}

// ownText reads a string that is not part of the form.
func (r *reportReader) ownText() string { return r.numbered(r.own.uint()) }

// numbered returns the string with a number.
func (r *reportReader) numbered(n uint64) string {
	if n < uint64(len(r.known)) {
		return r.known[n]
	}
	if n -= uint64(len(r.known)); n < uint64(len(r.strings)) {
		return r.strings[n]
	}
	r.fail()
	return ""
}

func (r *reportReader) time() int64 {
	r.at += r.vary() * r.clock.unit
	r.clock.passed(r.at)
	return r.at
}

func (r *reportReader) id(raw bool) string {
	if raw {
		return r.ownText()
	}
	b := []byte(nil)
	if r.form == r.own {
		b = r.form.bytes(16)
	} else {
		b = []byte(r.ownText())
	}
	if len(b) == 16 {
		return uuidText(b)
	}
	r.fail()
	return ""
}

// report reads a report. short has what is stored of its ids if they are not whole.
func (r *reportReader) report() (_ *model.AllocReport, short shortID) {
	r.at = r.clock.begin()
	flags := r.byte()
	out := &model.AllocReport{}
	if r.form != r.own && flags&reportRawID == 0 {
		short.alloc = string(r.own.bytes(uint64(r.width)))
	} else {
		out.ID = r.id(flags&reportRawID != 0)
	}
	if flags&reportStatus != 0 {
		out.ClientStatus, out.ClientDescription = r.text(), r.text()
	}
	if flags&reportNetwork != 0 {
		out.Network = &model.AllocNetworkStatus{}
		if err := entryCodec.Decode([]byte(r.text()), out.Network); err != nil {
			r.fail()
		}
	}
	if flags&reportHealth != 0 {
		out.Health = &model.HealthReport{Healthy: flags&reportHealthy != 0}
		if short.ownDeployment = flags&reportOwnDeployment != 0; !short.ownDeployment {
			out.Health.DeploymentID = r.id(flags&reportRawDeployment != 0)
		}
	}
	n := r.count()
	if n > 0 {
		out.Tasks = make(map[string]*model.TaskReport, n)
	}
	for range n {
		name := r.ownText()
		out.Tasks[name] = r.task()
	}
	return out, short
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
