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
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	eventHistory   = 4096 // changes kept for subscribers that are slow, by default
	eventLookBack  = 256  // changes kept for those that come late, once there is rest
	eventRest      = 30 * time.Second
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

// changeBatch is the changes of one index that make events. They become events only
// for subscribers: without any, the log costs next to nothing.
type changeBatch struct {
	index   uint64
	changes []keptChange
}

// keptChange is what events need of a change. The value before is not kept: it would
// only hold memory.
type keptChange struct {
	kind   string // the type of the event
	object any
	gone   bool
}

// eventLog keeps the newest changes and wakes readers.
type eventLog struct {
	mu      sync.Mutex
	batches []changeBatch
	size    int    // changes in batches
	dropped uint64 // index of the newest batch that was forgotten
	changed chan struct{}
	most    int // changes that are kept
}

// newEventLog returns a log that keeps so many changes, 0 for the default.
func newEventLog(most int) *eventLog {
	return &eventLog{changed: make(chan struct{}), most: cmp.Or(most, eventHistory)}
}

// add appends a batch and forgets the oldest ones.
func (l *eventLog) add(b changeBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, b)
	l.size += len(b.changes)
	l.shorten(l.most)
	close(l.changed)
	l.changed = make(chan struct{})
}

// rest forgets what only a subscriber that is slow would still need: objects that
// are gone long ago would otherwise hold memory until others take their places.
func (l *eventLog) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if back := min(eventLookBack, l.most); l.size > back {
		l.shorten(back)
		l.batches = slices.Clone(l.batches)
	}
}

// shorten forgets the oldest batches beyond a number of changes, never the newest.
func (l *eventLog) shorten(most int) {
	old := 0
	for l.size > most && old < len(l.batches)-1 {
		l.size -= len(l.batches[old].changes)
		l.dropped = l.batches[old].index
		old++
	}
	l.batches = slices.Delete(l.batches, 0, old)
}

// lose forgets everything up to an index: changes before it have not been seen.
func (l *eventLog) lose(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches, l.size, l.dropped = nil, 0, max(l.dropped, index)
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
		if err := s.feedSafely(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the feed of events broke off; it starts again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(eventRetry):
		}
	}
}

// feedSafely is feedOnce of which a panic is an error: the changes at hand are lost, which
// subscribers are told.
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
	for {
		calm, done := context.WithTimeout(ctx, eventRest)
		changes, err := feed.Next(calm)
		atRest := calm.Err() != nil && ctx.Err() == nil
		done()
		var lost *LostChangesError
		switch {
		case errors.As(err, &lost):
			s.log.Warn("changes came faster than they could be kept for the event stream; its subscribers are told", "index", lost.Index)
			s.events.lose(lost.Index)
		case err != nil && atRest:
			s.events.rest()
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

// keep adds changes to the log of events, a batch for each index.
func (s *Server) keep(changes []Change) {
	for len(changes) > 0 {
		b := changeBatch{index: changes[0].Index}
		n := 0
		for ; n < len(changes) && changes[n].Index == b.index; n++ {
			c := &changes[n]
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
