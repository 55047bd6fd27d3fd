// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"sync"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
)

// sessionState is what the node knows of its servers.
type sessionState struct {
	mu    sync.Mutex
	lease rpc.Lease
	heard time.Time // when a server last answered
	lost  error     // why there is no session; nil while there is one
}

func (s *sessionState) answered(l rpc.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.heard, s.lost = l, time.Now(), nil
}

func (s *sessionState) ended(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = err
}

// Session is what the node knows of its servers.
type Session struct {
	TTL   time.Duration // of the last lease
	Heard time.Time     // when a server last answered; zero if none did
	Lost  error         // why there is no session; nil while there is one
}

// Session returns what the node knows of its servers.
func (a *Agent) Session() Session {
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	return Session{TTL: a.session.lease.TTL, Heard: a.session.heard, Lost: a.session.lost}
}

// Connected reports whether the node holds a session with a server.
func (a *Agent) Connected() bool {
	s := a.Session()
	return s.Lost == nil && !s.Heard.IsZero()
}

// HasAlloc reports whether the node has an alloc, running or not yet collected.
func (a *Agent) HasAlloc(id string) bool {
	_, err := a.allocs.Runner(id)
	return err == nil
}

// Allocs are the allocs of the node with what the node knows of them.
func (a *Agent) Allocs() []*model.Allocation {
	var out []*model.Allocation
	for _, r := range a.allocs.Runners() {
		x, now := *r.Alloc(), r.View()
		x.ClientStatus, x.ClientDescription, x.TaskStates = now.ClientStatus, now.ClientDescription, now.TaskStates
		out = append(out, &x)
	}
	return out
}
