// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"slices"
	"sync"

	"github.com/drover-project/drover/core/model"
)

// eventLog holds the newest events that servers do not know yet.
type eventLog struct {
	mu      sync.Mutex
	pending []*model.NodeEvent
}

func (l *eventLog) add(events []*model.NodeEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = model.NewestNodeEvents(append(slices.Clip(l.pending), events...))
}

func (l *eventLog) unsent() []*model.NodeEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pending)
}

func (l *eventLog) sent(events []*model.NodeEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = slices.DeleteFunc(l.pending, func(e *model.NodeEvent) bool { return slices.Contains(events, e) })
}
