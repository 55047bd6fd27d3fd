// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"sync"
	"time"

	"github.com/drover-project/drover/core/rpc"
)

// contact is the state of the node's contact with its servers.
type contact struct {
	mu    sync.Mutex
	lease rpc.Lease
	heard time.Time // when a server last answered
	lost  error     // why there is no session; nil while there is one
}

func (c *contact) answered(l rpc.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease, c.heard, c.lost = l, time.Now(), nil
}

func (c *contact) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
}

// State describes the node's contact with its servers.
type State struct {
	TTL   time.Duration // lifetime of the last lease
	Heard time.Time     // when a server last answered; zero if none did
	Lost  error         // why there is no session; nil while there is one
}

// State returns the state of the node's contact with its servers.
func (s *Session) State() State {
	s.contact.mu.Lock()
	defer s.contact.mu.Unlock()
	return State{TTL: s.contact.lease.TTL, Heard: s.contact.heard, Lost: s.contact.lost}
}

// Connected reports whether the node holds a session with a server.
func (s *Session) Connected() bool {
	now := s.State()
	return now.Lost == nil && !now.Heard.IsZero()
}
