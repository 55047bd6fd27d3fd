// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package breaker

import (
	"sync"
	"time"
)

// Group is a breaker for each of several things that one callee answers for, such as the
// networks of a network plugin. One of them that does not answer leaves the others alone.
type Group struct {
	name    func(key string) string
	cfg     Config
	changed func()

	mu    sync.Mutex
	byKey map[string]*Breaker
}

// NewGroup returns a group of closed breakers. name names the one of a key in its errors. For
// changed see New.
func NewGroup(name func(key string) string, cfg Config, changed func()) *Group {
	return &Group{name: name, cfg: cfg, changed: changed, byKey: map[string]*Breaker{}}
}

// Of returns the breaker of a key.
func (g *Group) Of(key string) *Breaker {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.byKey[key]
	if b == nil {
		b = New(g.name(key), g.cfg, g.changed)
		g.byKey[key] = b
	}
	return b
}

// Open returns what Breaker.Open returns of the breaker that has been open for longest.
func (g *Group) Open() (since time.Time, last error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, b := range g.byKey {
		if at, err := b.Open(); err != nil && (last == nil || at.Before(since)) {
			since, last = at, err
		}
	}
	return since, last
}
