// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"encoding/binary"
	"hash"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"time"
)

// MaxTaskEvents is the number of events that are kept and reported per task.
const MaxTaskEvents = 10

// AllocReport is a node's report on one of its allocs: the differences since the last
// report that servers acknowledged. It may arrive twice or late, see Allocation.News.
type AllocReport struct {
	ID string
	// ClientStatus and ClientDescription belong together. A node always sets them; in
	// the log both are empty if they have not changed.
	ClientStatus      string
	ClientDescription string
	Tasks             map[string]*TaskReport // tasks that have changed
	Network           *AllocNetworkStatus    // nil if unchanged
	Health            *HealthReport          // nil if unchanged
	// Replaces is the digest (ReportDigest) of what the servers said that they know of the
	// alloc, if the node knows something else and this is everything; else 0. While they
	// know that, the report is the truth, though it may be older: the node's disk was put
	// back. It is not stored in the log.
	Replaces uint64 `wire:",omitempty"`
}

// HealthReport is a node's verdict on the health of an alloc. It is valid for one
// deployment.
type HealthReport struct {
	DeploymentID string // "" if the alloc has none
	Healthy      bool
}

// TaskReport is the difference in the state of a task.
type TaskReport struct {
	State    string
	Failed   bool
	Restarts uint64
	Paused   string

	// Times are in Unix ns. nil means unchanged, 0 means not set.
	LastRestart *int64
	StartedAt   *int64
	FinishedAt  *int64

	// Whole means that the report replaces everything that was known of the task.
	Whole bool
	// Before is the number of events that came before Events.
	Before uint64
	Events []*TaskEvent // the new events, oldest first
}

// lastEvent returns the sequence number of the newest event in r.
func (r *TaskReport) lastEvent() uint64 { return r.Before + uint64(len(r.Events)) }

// ReportSince returns the report that a node must send for a: the difference between a
// and acked, the state that servers have acknowledged (nil if none). It returns nil if
// nothing differs.
func (a *Allocation) ReportSince(acked *Allocation) *AllocReport {
	r := &AllocReport{ID: a.ID, ClientStatus: a.ClientStatus, ClientDescription: a.ClientDescription}
	news := acked == nil || acked.ClientStatus != a.ClientStatus || acked.ClientDescription != a.ClientDescription
	if acked == nil {
		acked = &Allocation{}
	}
	for name, s := range a.TaskStates {
		if t := s.reportSince(acked.TaskStates[name]); t != nil {
			if r.Tasks == nil {
				r.Tasks = map[string]*TaskReport{}
			}
			r.Tasks[name] = t
			news = true
		}
	}
	if a.NetworkStatus != nil && !reflect.DeepEqual(a.NetworkStatus, acked.NetworkStatus) {
		r.Network, news = a.NetworkStatus, true
	}
	if h := a.health(); h != nil {
		if old := acked.health(); old == nil || *old != *h {
			r.Health, news = h, true
		}
	}
	if !news {
		return nil
	}
	return r
}

func (a *Allocation) health() *HealthReport {
	if a.DeploymentStatus == nil || a.DeploymentStatus.Healthy == nil {
		return nil
	}
	return &HealthReport{DeploymentID: a.DeploymentID, Healthy: *a.DeploymentStatus.Healthy}
}

// News returns the part of a report that is new to servers that know a, in the form
// that the log stores; nil if nothing is new. A report that is older than the known
// state contains nothing new unless it replaces that, nor does a report that would revive
// an ended alloc.
// missing is true if the report continues from events that the servers do not have;
// the node must then send the full state of the alloc.
func (a *Allocation) News(r *AllocReport) (news *AllocReport, missing bool) {
	status := &Allocation{ClientStatus: r.ClientStatus}
	if a.ClientTerminalStatus() && r.ClientStatus != "" && !status.ClientTerminalStatus() {
		return nil, false
	}
	out := AllocReport{ID: a.ID}
	replaces := r.Replaces != 0 && r.Replaces == a.ReportDigest()
	for name, t := range r.Tasks {
		known := a.TaskStates[name]
		if t == nil {
			continue
		}
		if replaces && !t.Whole {
			whole := *t
			whole.Whole = true
			t = &whole
		}
		if !t.Whole && t.lastEvent() < known.lastEvent() {
			return nil, false
		}
		if !t.Whole && t.Before > known.lastEvent() {
			return nil, true
		}
		if n := known.With(t).reportSince(known); n != nil {
			if out.Tasks == nil {
				out.Tasks = map[string]*TaskReport{}
			}
			out.Tasks[name] = n
		}
	}
	if r.ClientStatus != "" && (r.ClientStatus != a.ClientStatus || r.ClientDescription != a.ClientDescription) {
		out.ClientStatus, out.ClientDescription = r.ClientStatus, r.ClientDescription
	}
	if r.Network != nil && !reflect.DeepEqual(r.Network, a.NetworkStatus) {
		out.Network = r.Network
	}
	// A node reports health once per deployment. A verdict for an earlier deployment
	// is void, and a verdict that an operator has set meanwhile takes precedence.
	if h := r.Health; h != nil && h.DeploymentID == a.DeploymentID && a.health() == nil {
		out.Health = h
	}
	if out.ClientStatus == "" && out.Tasks == nil && out.Network == nil && out.Health == nil {
		return nil, false
	}
	return &out, false
}

// WithNews returns a copy of a with the changes that News returned, except for the
// health, to which servers add a timestamp.
func (a *Allocation) WithNews(news *AllocReport) *Allocation {
	c := *a
	if news.ClientStatus != "" {
		c.ClientStatus, c.ClientDescription = news.ClientStatus, news.ClientDescription
	}
	if len(news.Tasks) > 0 {
		c.TaskStates = make(map[string]*TaskState, max(len(a.TaskStates), len(news.Tasks)))
		maps.Copy(c.TaskStates, a.TaskStates)
		for name, t := range news.Tasks {
			c.TaskStates[name] = a.TaskStates[name].With(t)
		}
	}
	if news.Network != nil {
		c.NetworkStatus = news.Network
	}
	return &c
}

// lastEvent returns LastEvent, or 0 if s is nil.
func (s *TaskState) lastEvent() uint64 {
	if s == nil {
		return 0
	}
	return s.LastEvent
}

// With returns the state after a report. s may be nil and is not modified. Events that
// s already has are not added again.
func (s *TaskState) With(r *TaskReport) *TaskState {
	out := &TaskState{}
	if s != nil && !r.Whole {
		*out = *s
	}
	out.State, out.Failed, out.Restarts, out.Paused = r.State, r.Failed, r.Restarts, r.Paused
	setTime(&out.LastRestart, r.LastRestart)
	setTime(&out.StartedAt, r.StartedAt)
	setTime(&out.FinishedAt, r.FinishedAt)
	skip := uint64(0)
	if out.LastEvent > r.Before {
		skip = min(out.LastEvent-r.Before, uint64(len(r.Events)))
	}
	if fresh := r.Events[skip:]; len(fresh) > 0 {
		events := slices.Concat(out.Events, fresh)
		out.Events = events[max(0, len(events)-MaxTaskEvents):]
	}
	out.LastEvent = max(out.LastEvent, r.lastEvent())
	return out
}

func setTime(dst **time.Time, ns *int64) {
	switch {
	case ns == nil:
	case *ns == 0:
		*dst = nil
	default:
		t := time.Unix(0, *ns).UTC()
		*dst = &t
	}
}

// reportSince returns the difference between known, which may be nil, and s; nil if
// there is none.
func (s *TaskState) reportSince(known *TaskState) *TaskReport {
	r := &TaskReport{State: s.State, Failed: s.Failed, Restarts: s.Restarts, Paused: s.Paused}
	fresh, continues := s.since(known)
	if !continues {
		known, fresh, r.Whole = &TaskState{}, s.Events, true
	} else if known == nil {
		known = &TaskState{}
	}
	r.Events, r.Before = fresh, s.LastEvent-uint64(len(fresh))
	r.LastRestart = newTime(known.LastRestart, s.LastRestart)
	r.StartedAt = newTime(known.StartedAt, s.StartedAt)
	r.FinishedAt = newTime(known.FinishedAt, s.FinishedAt)
	if continues && len(fresh) == 0 && r.LastRestart == nil && r.StartedAt == nil && r.FinishedAt == nil &&
		s.State == known.State && s.Failed == known.Failed && s.Restarts == known.Restarts && s.Paused == known.Paused {
		return nil
	}
	return r
}

// since returns the events of s that known does not have. ok is false if s does not
// continue known: the node started over, or too many events came in between.
func (s *TaskState) since(known *TaskState) (fresh []*TaskEvent, ok bool) {
	last := known.lastEvent()
	if last == 0 {
		empty := known == nil || len(known.Events) == 0
		return s.Events, empty && uint64(len(s.Events)) == s.LastEvent
	}
	if s.LastEvent < last || s.LastEvent-last >= uint64(len(s.Events)) {
		return nil, false
	}
	first := len(s.Events) - int(s.LastEvent-last)
	common := s.Events[first-1]
	for _, e := range slices.Backward(known.Events) {
		if e == common || e.Time == common.Time && e.Type == common.Type {
			return s.Events[first:], true
		}
	}
	return nil, false
}

func newTime(old, now *time.Time) *int64 {
	ns := int64(0)
	switch {
	case old == nil && now == nil || old != nil && now != nil && old.Equal(*now):
		return nil
	case now != nil:
		ns = now.UnixNano()
	}
	return &ns
}

// ReportDigest returns a hash of everything that a node reports of an alloc. Servers
// and node agree on the alloc if their digests are equal.
func (a *Allocation) ReportDigest() uint64 {
	d := digest{fnv.New64a()}
	d.text(a.ClientStatus)
	d.text(a.ClientDescription)
	if n := a.NetworkStatus; n != nil {
		d.text(n.Address)
		d.text(n.AddressIPv6)
		d.text(n.InterfaceName)
		for _, task := range slices.Sorted(maps.Keys(n.Drivers)) { // empty adds nothing; nodes of the first release never set it
			d.text(task)
			d.driver(n.Drivers[task])
		}
	}
	switch h := a.health(); {
	case h == nil:
		d.number(0)
	case h.Healthy:
		d.number(1)
	default:
		d.number(2)
	}
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		d.text(name)
		d.task(a.TaskStates[name])
	}
	return d.Sum64()
}

type digest struct{ hash.Hash64 }

func (d digest) driver(n *DriverNetwork) {
	if n == nil {
		return
	}
	d.text(n.IP)
	for _, label := range slices.Sorted(maps.Keys(n.PortMap)) {
		d.text(label)
		d.number(uint64(n.PortMap[label]))
	}
	if n.AutoAdvertise {
		d.number(1)
	}
}

func (d digest) text(s string) {
	d.number(uint64(len(s)))
	_, _ = d.Write([]byte(s)) // a hash never fails
}

func (d digest) number(n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = d.Write(b[:])
}

func (d digest) time(t *time.Time) {
	if t == nil {
		d.number(0)
		return
	}
	d.number(uint64(t.UnixNano()))
}

func (d digest) task(s *TaskState) {
	d.text(s.State)
	d.text(s.Paused)
	if s.Failed {
		d.number(1)
	}
	d.number(s.Restarts)
	d.number(s.LastEvent)
	d.time(s.LastRestart)
	d.time(s.StartedAt)
	d.time(s.FinishedAt)
	if n := len(s.Events); n > 0 {
		d.number(uint64(s.Events[n-1].Time))
	}
}
