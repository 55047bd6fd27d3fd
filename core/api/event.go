// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
)

const (
	eventHistory   = 4096 // changes kept for subscribers that come late or are slow
	eventHeartbeat = 10 * time.Second
	eventRetry     = time.Second
)

// Event is a change of one object.
type Event struct {
	Topic      string
	Type       string
	Key        string
	Namespace  string
	FilterKeys []string
	Index      uint64
	Payload    map[string]any
}

// EventBatch is the events of one index.
type EventBatch struct {
	Index  uint64
	Events []Event
}

// changeBatch is the changes of one index. They become events only for
// subscribers: without any, the log costs next to nothing.
type changeBatch struct {
	index   uint64
	changes []Change
}

// eventLog keeps the newest changes and wakes readers.
type eventLog struct {
	mu      sync.Mutex
	batches []changeBatch
	size    int    // changes in batches
	dropped uint64 // index of the newest batch that was forgotten
	changed chan struct{}
}

func newEventLog() *eventLog { return &eventLog{changed: make(chan struct{})} }

// add appends a batch and forgets the oldest ones, never the newest.
func (l *eventLog) add(b changeBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, b)
	l.size += len(b.changes)
	old := 0
	for l.size > eventHistory && old < len(l.batches)-1 {
		l.size -= len(l.batches[old].changes)
		l.dropped = l.batches[old].index
		old++
	}
	l.batches = slices.Delete(l.batches, 0, old)
	close(l.changed)
	l.changed = make(chan struct{})
}

// after returns the batches newer than index and a channel that is closed at the
// next one, and whether batches between them have been forgotten.
func (l *eventLog) after(index uint64) (newer []changeBatch, changed <-chan struct{}, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost = index < l.dropped
	i := slices.IndexFunc(l.batches, func(b changeBatch) bool { return b.index > index })
	if i < 0 {
		return nil, l.changed, lost
	}
	return slices.Clone(l.batches[i:]), l.changed, lost
}

// Feed keeps the event stream filled from committed changes until ctx ends.
func (s *Server) Feed(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.feedOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the feed of events broke off; it starts again, subscribers may miss events", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(eventRetry):
		}
	}
}

func (s *Server) feedOnce(ctx context.Context) error {
	feed, err := s.backend.Changes(ctx)
	if err != nil {
		return err
	}
	for {
		changes, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		for i := range changes {
			if c := &changes[i]; c.Table != TableNodes && !isNil(c.New) {
				c.Old = nil // no event needs it; kept, it would only hold memory
			}
		}
		for len(changes) > 0 {
			index := changes[0].Index
			n := 1
			for n < len(changes) && changes[n].Index == index {
				n++
			}
			s.events.add(changeBatch{index, changes[:n]})
			changes = changes[n:]
		}
	}
}

// eventOf turns a change into the event that clients know. Unknown tables make none.
func eventOf(c Change) (Event, bool) {
	obj, gone := c.New, false
	if isNil(obj) {
		obj, gone = c.Old, true
	}
	pick := func(there, away string) string {
		if gone {
			return away
		}
		return there
	}
	switch o := obj.(type) {
	case *model.Job:
		return Event{Topic: "Job", Type: jobEventType(o, gone), Key: o.ID, Namespace: o.Namespace, Payload: map[string]any{"Job": o}}, true
	case *model.Allocation:
		keys := slices.DeleteFunc([]string{o.JobID, o.DeploymentID}, func(s string) bool { return s == "" })
		return Event{Topic: "Allocation", Type: "AllocationUpdated", Key: o.ID, Namespace: o.Namespace, FilterKeys: keys, Payload: map[string]any{"Allocation": o}}, !gone
	case *model.Evaluation:
		keys := slices.DeleteFunc([]string{o.JobID, o.DeploymentID}, func(s string) bool { return s == "" })
		return Event{Topic: "Evaluation", Type: "EvaluationUpdated", Key: o.ID, Namespace: o.Namespace, FilterKeys: keys, Payload: map[string]any{"Evaluation": o}}, !gone
	case *model.Deployment:
		return Event{Topic: "Deployment", Type: "DeploymentStatusUpdate", Key: o.ID, Namespace: o.Namespace, FilterKeys: []string{o.JobID}, Payload: map[string]any{"Deployment": o}}, !gone
	case *model.Node:
		return Event{Topic: "Node", Type: nodeEventType(c, gone), Key: o.ID, Payload: map[string]any{"Node": publicNode(o)}}, true
	case *model.NodePool:
		return Event{Topic: "NodePool", Type: pick("NodePoolUpserted", "NodePoolDeleted"), Key: o.Name, Payload: map[string]any{"NodePool": viewNodePool(o)}}, true
	case *model.Namespace:
		return Event{Topic: "Namespace", Type: pick("NamespaceUpserted", "NamespaceDeleted"), Key: o.Name, Payload: map[string]any{"Namespace": viewNamespace(o)}}, true
	}
	return Event{}, false
}

// isNil reports whether a change has no such side: no value, or a nil pointer of a table's type.
func isNil(v any) bool {
	switch o := v.(type) {
	case nil:
		return true
	case *model.Job:
		return o == nil
	case *model.Allocation:
		return o == nil
	case *model.Evaluation:
		return o == nil
	case *model.Deployment:
		return o == nil
	case *model.Node:
		return o == nil
	case *model.NodePool:
		return o == nil
	case *model.Namespace:
		return o == nil
	}
	return false
}

func jobEventType(j *model.Job, gone bool) string {
	if gone || j.Stop {
		return "JobDeregistered"
	}
	return "JobRegistered"
}

func nodeEventType(c Change, gone bool) string {
	if gone {
		return "NodeDeregistration"
	}
	was, _ := c.Old.(*model.Node)
	is, _ := c.New.(*model.Node)
	switch {
	case was == nil:
		return "NodeRegistration"
	case (was.DrainStrategy == nil) != (is.DrainStrategy == nil):
		return "NodeDrain"
	case was.SchedulingEligibility != is.SchedulingEligibility:
		return "NodeEligibility"
	}
	return "NodeEvent"
}

// topicFilter is what a subscriber wants: topic -> keys; "*" is everything.
type topicFilter map[string][]string

func parseTopics(list []string) (topicFilter, error) {
	f := topicFilter{}
	for _, t := range list {
		topic, key, ok := strings.Cut(t, ":")
		if topic == "" || ok && key == "" {
			return nil, fail(http.StatusBadRequest, "Invalid topic \""+t+"\": write TOPIC or TOPIC:KEY")
		}
		if !ok {
			key = "*"
		}
		f[topic] = append(f[topic], key)
	}
	if len(f) == 0 {
		f["*"] = []string{"*"}
	}
	return f, nil
}

func (f topicFilter) wants(e *Event) bool {
	for _, key := range slices.Concat(f[e.Topic], f["*"]) {
		if key == "*" || key == e.Key || slices.Contains(e.FilterKeys, key) {
			return true
		}
	}
	return false
}

// eventStream sends batches as lines of JSON, and {} when nothing happens.
func (s *Server) eventStream(w http.ResponseWriter, r *http.Request) (any, error) {
	p := r.URL.Query()
	topics, err := parseTopics(p["topic"])
	if err != nil {
		return nil, err
	}
	from := uint64(0)
	if v := p.Get("index"); v != "" {
		if from, err = strconv.ParseUint(v, 10, 64); err != nil {
			return nil, fail(http.StatusBadRequest, "Unable to parse index: "+err.Error())
		}
	} else if v := s.backend.View(); v != nil {
		from = v.Index()
	}
	if from > 0 && p.Get("index") != "" {
		from-- // the index itself is included
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "application/json")
	return done, s.sendEvents(r.Context(), w, topics, namespaceOf(r), from)
}

func (s *Server) sendEvents(ctx context.Context, w http.ResponseWriter, topics topicFilter, ns string, from uint64) error {
	ctl := http.NewResponseController(w)
	defer func() { _ = ctl.SetWriteDeadline(time.Time{}) }() // the connection may serve other requests
	beat := time.NewTicker(eventHeartbeat)
	defer beat.Stop()
	send := func(b []byte) bool {
		_ = ctl.SetWriteDeadline(time.Now().Add(streamPatience)) // where there is none the connection's own end ends it
		_, err := w.Write(append(b, '\n'))
		return err == nil && ctl.Flush() == nil
	}
	if !send([]byte("{}")) {
		return nil
	}
	for first := true; ; first = false {
		batches, changed, lost := s.events.after(from)
		if lost && !first {
			// Who comes with an old index gets what is kept; who was here and fell
			// behind must know that something is missing.
			send([]byte(`{"Error":"the subscriber was too slow and missed events; connect again and read what it follows anew"}`))
			panic(http.ErrAbortHandler)
		}
		for _, b := range batches {
			from = b.index
			line, err := wantedLine(b, topics, ns)
			if err != nil {
				panic(http.ErrAbortHandler) // the answer has begun; cutting it is the only sign left
			}
			if line != nil && !send(line) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-beat.C:
			if !send([]byte("{}")) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// wantedLine is a batch as JSON with only what the subscriber wants, nil if that is nothing.
func wantedLine(b changeBatch, topics topicFilter, ns string) ([]byte, error) {
	out := EventBatch{Index: b.index}
	for _, c := range b.changes {
		e, ok := eventOf(c)
		if !ok || !topics.wants(&e) || e.Namespace != "" && ns != "*" && e.Namespace != ns {
			continue
		}
		e.Index = b.index
		out.Events = append(out.Events, e)
	}
	if len(out.Events) == 0 {
		return nil, nil
	}
	return json.Marshal(&out)
}
