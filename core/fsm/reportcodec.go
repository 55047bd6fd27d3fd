// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Nodes' reports are most of the writes of a busy cluster, so they have an encoding of
// their own: ids as 16 bytes, times as differences from the previous time, strings and
// unusual events once per entry, usual events as their number and parameters
// (reportevents.go).

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

// reportWriter encodes reports. The strings that it collects precede them in the
// entry.
type reportWriter struct {
	buf     []byte
	strings []string
	places  map[string]uint64
	at      int64 // the previous time
}

// packReports returns the encoding of reports.
func packReports(reports []*model.AllocReport, at int64) ([]byte, error) {
	w := &reportWriter{places: map[string]uint64{}}
	for i, s := range knownStrings {
		w.places[s] = uint64(i)
	}
	n := uint64(0)
	for _, r := range reports {
		if r == nil {
			continue
		}
		n++
		w.at = at
		if err := w.report(r); err != nil {
			return nil, err
		}
	}
	head := binary.AppendUvarint(nil, uint64(len(w.strings)))
	for _, s := range w.strings {
		head = append(binary.AppendUvarint(head, uint64(len(s))), s...)
	}
	return append(binary.AppendUvarint(head, n), w.buf...), nil
}

func (w *reportWriter) uint(n uint64) { w.buf = binary.AppendUvarint(w.buf, n) }
func (w *reportWriter) int(n int64)   { w.buf = binary.AppendVarint(w.buf, n) }

// text writes a string as its number.
func (w *reportWriter) text(s string) {
	place, ok := w.places[s]
	if !ok {
		place = uint64(len(knownStrings) + len(w.strings))
		w.places[s] = place
		w.strings = append(w.strings, s)
	}
	w.uint(place)
}

// time writes a time as the difference from the previous one.
func (w *reportWriter) time(at int64) {
	w.int(at - w.at)
	w.at = at
}

func (w *reportWriter) id(id string, raw bool) {
	if raw {
		w.text(id)
		return
	}
	w.buf = append(w.buf, uuidBytes(id)...)
}

func (w *reportWriter) report(r *model.AllocReport) error {
	flags := flag(reportRawID, uuidBytes(r.ID) == nil) | flag(reportStatus, r.ClientStatus != "") | flag(reportNetwork, r.Network != nil)
	if h := r.Health; h != nil {
		flags |= reportHealth | flag(reportHealthy, h.Healthy) | flag(reportRawDeployment, uuidBytes(h.DeploymentID) == nil)
	}
	w.buf = append(w.buf, flags)
	w.id(r.ID, flags&reportRawID != 0)
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
	if r.Health != nil {
		w.id(r.Health.DeploymentID, flags&reportRawDeployment != 0)
	}
	w.uint(uint64(len(r.Tasks)))
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		w.text(name)
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
	w.buf = append(w.buf, flag(taskFailed, t.Failed)|flag(taskWhole, t.Whole)|flag(taskPaused, t.Paused != "")|
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
