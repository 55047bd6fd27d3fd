// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Nodes' reports are most of the writes of a busy cluster, so they have an encoding of
// their own: ids as 16 bytes, times as differences from the previous time, strings and
// unusual events once per entry, usual events as their number and parameters
// (reportevents.go).
//
// There are two layouts. In the layout of UpdateAllocsFromClient everything follows in one
// sequence. In the layout of ReportAllocs the sequence is split: the form of a report (its
// flags, texts, counts and kinds of events) is stored once per entry for all reports that
// have it, or not at all if it is one of usualReports. Each report stores the number of its
// form, the first bytes of its alloc's id, its times, the names of its tasks and what else
// is different in nearly each report.

// knownStrings are stored as their position in this list. Strings may only be
// appended. The empty string is the first.
var knownStrings = []string{
	"",
	model.AllocClientStatusPending, model.AllocClientStatusRunning, model.AllocClientStatusComplete, model.AllocClientStatusFailed,
	model.TaskStateDead,
	"Tasks are running", "All tasks have completed", "Failed tasks", "No tasks have started",
	model.RestartWithinPolicy, "Policy allows no restarts", "Error was unrecoverable", "OOM Killed",
}

// Flags of a report.
const (
	reportRawID = 1 << iota // the id is a string
	reportStatus
	reportNetwork
	reportHealth
	reportHealthy
	reportRawDeployment
	reportOwnDeployment // the deployment is the alloc's: nothing is stored of its id
)

// Flags of a task.
const (
	taskFailed = 1 << iota
	taskWhole
	taskPaused
	taskLastRestart
	taskStartedAt
	taskFinishedAt
)

// Encodings of a time. timeOfEvent+i means the time of event i.
const (
	timeNone = iota
	timeExplicit
	timeOfEvent
)

// splitStrings are knownStrings that only the split layout has. Strings may only be
// appended.
var splitStrings = slices.Concat(knownStrings, []string{emptyNetwork()})

// emptyNetwork returns the stored form of the network of an alloc without a network of its
// own.
func emptyNetwork() string {
	body, err := entryCodec.Append(nil, &model.AllocNetworkStatus{})
	if err != nil {
		panic(err) // only a change of the type could cause it
	}
	return string(body)
}

// reportWriter encodes reports. The strings that it collects precede them in the
// entry.
type reportWriter struct {
	form    []byte
	own     []byte // the values that are not part of the form; unused unless split
	split   bool
	known   []string
	strings []string
	places  map[string]uint64
	at      int64 // the previous time
	clock   clock
}

// clock says how the times of reports are stored. In the layout of ReportAllocs from
// levelMillis on they are milliseconds, and the first time of a report is stored as the
// difference from the first one of the report before it: reports of an entry are mostly
// about the same moment. Otherwise they are nanoseconds, and the first time of each report is
// stored as the difference from the entry's.
type clock struct {
	unit  int64 // ns; all times are multiples of it
	chain bool  // the first time of a report depends on the report before it
	first int64 // the time from which the first one of the next report differs
	began bool  // the first time of this report is known
}

func newClock(at int64, millis bool) clock {
	if !millis {
		return clock{unit: 1, first: at}
	}
	const unit = int64(time.Millisecond)
	return clock{unit: unit, chain: true, first: at - at%unit}
}

// begin returns the time from which the first one of a report differs.
func (c *clock) begin() int64 {
	c.began = false
	return c.first
}

// passed notes a time.
func (c *clock) passed(at int64) {
	if c.chain && !c.began {
		c.first, c.began = at, true
	}
}

func newReportWriter(split bool, c clock) *reportWriter {
	w := &reportWriter{split: split, known: knownStrings, places: map[string]uint64{}, clock: c}
	if split {
		w.known = splitStrings
	}
	for i, s := range w.known {
		w.places[s] = uint64(i)
	}
	return w
}

// head returns the collected strings, which begin the encoding.
func (w *reportWriter) head() []byte {
	head := binary.AppendUvarint(nil, uint64(len(w.strings)))
	for _, s := range w.strings {
		head = appendText(head, s)
	}
	return head
}

func appendText[T string | []byte](to []byte, s T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// packReports returns the encoding of reports in one sequence.
func packReports(reports []*model.AllocReport, at int64) ([]byte, error) {
	w := newReportWriter(false, newClock(at, false))
	n := uint64(0)
	for _, r := range reports {
		if r == nil {
			continue
		}
		n++
		if err := w.report(r, shortID{}); err != nil {
			return nil, err
		}
	}
	return append(binary.AppendUvarint(w.head(), n), w.form...), nil
}

// shortID is what is stored of the ids in a report.
type shortID struct {
	alloc         string // the first bytes of the alloc's id; "" means that it is stored whole
	ownDeployment bool   // the health is that in the alloc's deployment, whose id is not stored
}

// packSplit returns the encoding of reports with their forms apart. The beginnings of ids in
// short have one length. If millis is true, all times must be whole milliseconds.
func packSplit(reports []*model.AllocReport, short []shortID, at int64, millis bool) ([]byte, error) {
	w := newReportWriter(true, newClock(at, millis))
	forms, numbers := []byte(nil), maps.Clone(usualForms().numbers)
	usual := len(numbers)
	var body []byte
	width := 0
	for i, r := range reports {
		w.form, w.own = w.form[:0], w.own[:0]
		if err := w.report(r, short[i]); err != nil {
			return nil, err
		}
		number, known := numbers[string(w.form)]
		if !known {
			number = uint64(len(numbers))
			numbers[string(w.form)] = number
			forms = appendText(forms, w.form)
		}
		body = append(binary.AppendUvarint(body, number), w.own...)
		width = max(width, len(short[i].alloc))
	}
	out := append(binary.AppendUvarint(w.head(), uint64(len(numbers)-usual)), forms...)
	out = binary.AppendUvarint(append(out, byte(width)), uint64(len(reports)))
	return append(out, body...), nil
}

func (w *reportWriter) uint(n uint64) { w.form = binary.AppendUvarint(w.form, n) }
func (w *reportWriter) int(n int64)   { w.form = binary.AppendVarint(w.form, n) }

// vary writes a number that is different in nearly each report.
func (w *reportWriter) vary(n int64) {
	if !w.split {
		w.int(n)
		return
	}
	w.own = binary.AppendVarint(w.own, n)
}

// text writes a string as its number.
func (w *reportWriter) text(s string) { w.uint(w.place(s)) }

// ownText writes a string that differs between reports of one form.
func (w *reportWriter) ownText(s string) {
	if !w.split {
		w.text(s)
		return
	}
	w.own = binary.AppendUvarint(w.own, w.place(s))
}

// place returns the number of a string.
func (w *reportWriter) place(s string) uint64 {
	place, ok := w.places[s]
	if !ok {
		place = uint64(len(w.known) + len(w.strings))
		w.places[s] = place
		w.strings = append(w.strings, s)
	}
	return place
}

// time writes a time as the difference from the previous one.
func (w *reportWriter) time(at int64) {
	w.vary((at - w.at) / w.clock.unit)
	w.at = at
	w.clock.passed(at)
}

func (w *reportWriter) id(id string, raw bool) {
	if raw {
		w.ownText(id)
		return
	}
	if w.split {
		w.ownText(string(uuidBytes(id)))
		return
	}
	w.form = append(w.form, uuidBytes(id)...)
}

// report writes a report.
func (w *reportWriter) report(r *model.AllocReport, short shortID) error {
	w.at = w.clock.begin()
	raw := uuidBytes(r.ID) == nil
	if w.split {
		raw = short.alloc == ""
	}
	flags := flag(reportRawID, raw) | flag(reportStatus, r.ClientStatus != "") | flag(reportNetwork, r.Network != nil)
	if h := r.Health; h != nil {
		flags |= reportHealth | flag(reportHealthy, h.Healthy)
		if short.ownDeployment {
			flags |= reportOwnDeployment
		} else {
			flags |= flag(reportRawDeployment, uuidBytes(h.DeploymentID) == nil)
		}
	}
	w.form = append(w.form, flags)
	if short.alloc != "" {
		w.own = append(w.own, short.alloc...)
	} else {
		w.id(r.ID, raw)
	}
	if r.ClientStatus != "" {
		w.text(r.ClientStatus)
		w.text(r.ClientDescription)
	}
	if r.Network != nil {
		body, err := entryCodec.Append(nil, r.Network)
		if err != nil {
			return err
		}
		w.text(string(body))
	}
	if r.Health != nil && !short.ownDeployment {
		w.id(r.Health.DeploymentID, flags&reportRawDeployment != 0)
	}
	w.uint(uint64(len(r.Tasks)))
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		w.ownText(name)
		if err := w.task(r.Tasks[name]); err != nil {
			return err
		}
	}
	return nil
}

func (w *reportWriter) task(t *model.TaskReport) error {
	if t == nil {
		return errdefs.InvalidArgumentf("a report without a task's state cannot be stored")
	}
	w.form = append(w.form, flag(taskFailed, t.Failed)|flag(taskWhole, t.Whole)|flag(taskPaused, t.Paused != "")|
		flag(taskLastRestart, t.LastRestart != nil)|flag(taskStartedAt, t.StartedAt != nil)|flag(taskFinishedAt, t.FinishedAt != nil))
	w.text(t.State)
	w.uint(t.Restarts)
	if t.Paused != "" {
		w.text(t.Paused)
	}
	w.uint(t.Before)
	w.uint(uint64(len(t.Events)))
	for _, e := range t.Events {
		if e == nil {
			return errdefs.InvalidArgumentf("a report without one of a task's events cannot be stored")
		}
		if err := w.event(e); err != nil {
			return err
		}
	}
	for _, at := range []*int64{t.LastRestart, t.StartedAt, t.FinishedAt} {
		w.timeAmong(at, t.Events)
	}
	return nil
}

// timeAmong writes a time, which is most often the time of an event.
func (w *reportWriter) timeAmong(at *int64, events []*model.TaskEvent) {
	switch {
	case at == nil:
		return
	case *at == 0:
		w.uint(timeNone)
		return
	}
	if i := slices.IndexFunc(events, func(e *model.TaskEvent) bool { return e.Time == *at }); i >= 0 {
		w.uint(timeOfEvent + uint64(i))
		return
	}
	w.uint(timeExplicit)
	w.time(*at)
}

func flag(bit byte, set bool) byte {
	if set {
		return bit
	}
	return 0
}

// uuidBytes returns the bytes of a UUID in canonical form, nil for other ids.
func uuidBytes(id string) []byte {
	if len(id) != 36 {
		return nil
	}
	b, err := hex.DecodeString(id[:8] + id[9:13] + id[14:18] + id[19:23] + id[24:])
	if err != nil || uuidText(b) != id {
		return nil
	}
	return b
}

func uuidText(b []byte) string {
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
