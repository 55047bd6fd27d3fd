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
	"time"

	"github.com/hashicorp/go-bexpr"
)

// topicFilter is a subscriber's selection: topics with their keys; "*" selects
// everything.
type topicFilter map[string][]string

func parseTopics(list []string) (topicFilter, error) {
	f := topicFilter{}
	for _, t := range list {
		topic, key, ok := strings.Cut(t, ":")
		if !ok {
			key = "*"
		}
		switch {
		case key == "" || strings.HasPrefix(key, ":"):
			return nil, fail(http.StatusBadRequest, "Invalid key value pair for topic: \""+t+"\"; write TOPIC or TOPIC:KEY")
		case !slices.Contains(eventTopics, topic):
			return nil, fail(http.StatusBadRequest, "Unknown topic \""+topic+"\"; there are "+strings.Join(eventTopics, ", "))
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

// eventStream sends batches as lines of JSON, and {} while there are none.
func (s *Server) eventStream(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.cfg.NoEvents {
		return nil, fail(http.StatusBadRequest, "event broker must be enabled: this server has server { enable_event_broker = false }")
	}
	p := paramsOf(r)
	topics, err := parseTopics(p.all("topic"))
	if err != nil {
		return nil, err
	}
	filter, err := readFilter(p.get("filter"))
	if err != nil {
		return nil, err
	}
	want := &subscription{topics: topics, namespace: namespaceOf(r), filter: filter, view: s.backend.View}
	from, resumes := uint64(0), false
	if v := p.get("index"); v != "" {
		if from, err = strconv.ParseUint(v, 10, 64); err != nil {
			return nil, fail(http.StatusBadRequest, "Unable to parse index: "+err.Error())
		}
	} else if v := s.backend.View(); v != nil {
		from = v.Index()
	}
	if from > 0 && p.get("index") != "" {
		from-- // include the index itself
		resumes = true
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "application/json")
	return done, s.sendEvents(r.Context(), w, want, from, resumes)
}

// sendEvents sends what comes after an index. If events after it are missing, a resuming
// subscriber gets a gap first.
func (s *Server) sendEvents(ctx context.Context, w http.ResponseWriter, want *subscription, from uint64, resumes bool) error {
	ctl := http.NewResponseController(w)
	defer func() { _ = ctl.SetWriteDeadline(time.Time{}) }() // the connection may serve further requests
	beat := time.NewTicker(eventHeartbeat)
	defer beat.Stop()
	send := func(b []byte) bool {
		_ = ctl.SetWriteDeadline(time.Now().Add(streamPatience)) // if deadlines are not supported, the end of the connection ends the stream
		_, err := w.Write(append(b, '\n'))
		return err == nil && ctl.Flush() == nil
	}
	if !send([]byte("{}")) {
		return nil
	}
	for first := true; ; first = false {
		batches, changed, lost, err := s.events.after(from)
		switch {
		case err != nil:
			s.log.Error("events cannot be read back; this is a defect of drover", "error", err)
			panic(http.ErrAbortHandler)
		case lost == 0:
		case !first:
			// A connected subscriber that fell behind must learn that it has missed events,
			// even if it does not know the field Gap.
			send([]byte(`{"Error":"the subscriber was too slow and missed events; connect again and read what it follows anew"}`))
			panic(http.ErrAbortHandler)
		case resumes:
			if gap, err := json.Marshal(&EventBatch{Index: lost, Events: []Event{}, Gap: &EventGap{From: from + 1, To: lost}}); err != nil || !send(gap) {
				return err
			}
		}
		from = max(from, lost) // what is missing is told once
		for _, b := range batches {
			from = b.index
			line, err := want.line(b)
			if err != nil {
				panic(http.ErrAbortHandler) // the answer has begun, so closing the connection is the only way to signal the error
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

// subscription is the selection of a subscriber.
type subscription struct {
	topics    topicFilter
	namespace string
	filter    *bexpr.Evaluator // applied to each Event; nil selects all
	view      func() View
}

// line returns the selected events of a batch as JSON, nil if there are none.
func (w *subscription) line(b changeBatch) ([]byte, error) {
	out := EventBatch{Index: b.index}
	for i := range b.changes {
		e := eventOf(&b.changes[i], b.index)
		if !w.topics.wants(&e) || e.Namespace != "" && w.namespace != "*" && e.Namespace != w.namespace {
			continue
		}
		if c, ok := b.changes[i].object.(pluginChange); ok {
			describePlugin(w.view(), &e, c.id)
		}
		if w.filter != nil {
			if ok, err := w.filter.Evaluate(e); err != nil || !ok {
				continue // an event without the field does not match the filter
			}
		}
		out.Events = append(out.Events, e)
	}
	if len(out.Events) == 0 {
		return nil, nil
	}
	return json.Marshal(&out)
}
