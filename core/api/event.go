// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	eventHistory   = 4096 // changes kept for slow subscribers, by default
	eventLookBack  = 256  // changes kept for late subscribers when there is no traffic
	eventHeartbeat = 10 * time.Second
	eventRetry     = time.Second
	// eventRest is for how long there must be no change until changes are packed: before the
	// agent makes its last collection at rest, which frees what they took.
	eventRest = 10 * time.Second
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

// EventBatch is the events of one index, or says that events are missing. Clients of the
// reference take the latter for a batch without events.
type EventBatch struct {
	Index  uint64
	Events []Event
	Gap    *EventGap `json:",omitempty"`
}

// EventGap says that the server no longer has, or never had, the events of some indexes
// that the subscriber asked for. The subscriber must read the objects that it follows
// again; the stream continues after the gap.
type EventGap struct{ From, To uint64 }

// changeBatch holds the changes of one index that make events. They are converted to
// events only for subscribers, so that the log costs almost nothing without any.
type changeBatch struct {
	index   uint64
	changes []keptChange
}

// keptChange is the part of a change that events need. The old value is not kept, to
// save memory.
type keptChange struct {
	kind   string // type of the event
	object any
	gone   bool
}

// eventLog keeps the newest changes and wakes readers.
type eventLog struct {
	mu      sync.Mutex
	packs   []*eventPack // older than batches
	batches []changeBatch
	size    int    // number of changes in packs and batches
	dropped uint64 // the newest index of which events may be missing
	changed chan struct{}
	most    int // maximum number of kept changes
}

// newEventLog returns a log that keeps the given number of changes; 0 means the
// default.
func newEventLog(most int) *eventLog {
	return &eventLog{changed: make(chan struct{}), most: cmp.Or(most, eventHistory)}
}

// add appends a batch and drops the oldest ones beyond the limit.
func (l *eventLog) add(b changeBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, b)
	l.size += len(b.changes)
	l.shorten(l.most)
	close(l.changed)
	l.changed = make(chan struct{})
}

// rest drops changes that only a slow subscriber would need, and packs the others;
// otherwise deleted objects would hold memory until newer changes replace them.
func (l *eventLog) rest() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if back := min(eventLookBack, l.most); l.size > back {
		l.shorten(back)
		l.batches = slices.Clone(l.batches)
	}
	n := l.size
	for _, p := range l.packs {
		n -= p.size
	}
	if n < packFrom {
		return nil
	}
	p, err := packChanges(l.batches)
	if err != nil {
		return err // they stay as they are
	}
	l.packs, l.batches = append(l.packs, p), nil
	return nil
}

// shorten drops the oldest packs and batches until at most the given number of changes is
// left. It keeps a pack of which only a part is too much, and the newest batch.
func (l *eventLog) shorten(most int) {
	for len(l.packs) > 0 && l.size-l.packs[0].size >= most {
		l.size -= l.packs[0].size
		l.dropped = l.packs[0].last
		l.packs = slices.Delete(l.packs, 0, 1)
	}
	if len(l.packs) > 0 {
		return
	}
	old := 0
	for l.size > most && old < len(l.batches)-1 {
		l.size -= len(l.batches[old].changes)
		l.dropped = l.batches[old].index
		old++
	}
	l.batches = slices.Delete(l.batches, 0, old)
}

// lose drops everything up to an index, after changes were lost.
func (l *eventLog) lose(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.packs, l.batches, l.size, l.dropped = nil, nil, 0, max(l.dropped, index)
	close(l.changed)
	l.changed = make(chan struct{})
}

// begin notes the index after which a feed has every change. A new state has
// firstIndex, at which there are no events.
func (l *eventLog) begin(since uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since > firstIndex {
		l.dropped = max(l.dropped, since)
	}
}

// after returns the batches newer than index, a channel that is closed at the next
// batch, and, if events after index are missing, the newest index of which they are.
func (l *eventLog) after(index uint64) (newer []changeBatch, changed <-chan struct{}, lost uint64, err error) {
	packs, newer, changed, lost := l.newer(index)
	var old []changeBatch
	for _, p := range packs {
		unpacked, err := p.unpack(index)
		if err != nil {
			return nil, changed, lost, err
		}
		old = append(old, unpacked...)
	}
	return append(old, newer...), changed, lost, nil
}

// newer is after with what is packed still packed.
func (l *eventLog) newer(index uint64) (packs []*eventPack, batches []changeBatch, changed <-chan struct{}, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index < l.dropped {
		lost = l.dropped
	}
	for _, p := range l.packs {
		if p.last > index {
			packs = append(packs, p)
		}
	}
	if i := slices.IndexFunc(l.batches, func(b changeBatch) bool { return b.index > index }); i >= 0 {
		batches = slices.Clone(l.batches[i:])
	}
	return packs, batches, l.changed, lost
}

// Feed fills the event stream with committed changes until ctx ends.
func (s *Server) Feed(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.feedSafely(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the feed of events broke off; it starts again", "error", err)
		}
		_ = sleep.For(ctx, eventRetry)
	}
}

// feedSafely is feedOnce with panics converted to errors. After a panic the current changes
// are lost, and subscribers get an error.
func (s *Server) feedSafely(ctx context.Context) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		s.log.Error("changes cannot be kept for the event stream; this is a defect of drover", p.Fields()...)
		if v := s.backend.View(); v != nil {
			s.events.lose(v.Index())
		}
		err = errdefs.Internalf("keeping changes panicked; see the log")
	})
	return s.feedOnce(ctx)
}

func (s *Server) feedOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the feed
	feed, err := s.backend.Changes(ctx)
	if err != nil {
		return err
	}
	s.events.begin(feed.Since())
	for {
		calm, done := context.WithTimeout(ctx, eventRest)
		changes, err := feed.Next(calm)
		atRest := calm.Err() != nil && ctx.Err() == nil
		done()
		var lost *LostChangesError
		switch {
		case errors.As(err, &lost):
			s.log.Warn("changes came faster than the event stream could keep them; its subscribers get an error", "index", lost.Index)
			s.events.lose(lost.Index)
		case err != nil && atRest:
			if err := s.events.rest(); err != nil {
				s.log.Warn("changes for late subscribers of events could not be packed, so they take more memory", "error", err)
			}
		case err != nil:
			if v := s.backend.View(); v != nil {
				s.events.lose(v.Index())
			}
			return err
		default:
			s.keep(changes)
		}
	}
}

// keep adds changes to the event log, in one batch per index.
func (s *Server) keep(changes []state.Change) {
	for len(changes) > 0 {
		b := changeBatch{index: changes[0].Index}
		n := 0
		for ; n < len(changes) && changes[n].Index == b.index; n++ {
			c := &changes[n]
			b.keepPlugins(c)
			kind := eventType(c)
			if kind == "" {
				continue
			}
			k := keptChange{kind: kind, object: c.New, gone: isNil(c.New)}
			if k.gone {
				k.object = c.Old
			}
			b.changes = append(b.changes, k)
		}
		if len(b.changes) > 0 {
			s.events.add(b)
		}
		changes = changes[n:]
	}
}
