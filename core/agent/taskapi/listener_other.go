// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package taskapi

import (
	"net"
	"sync"

	"github.com/drover-project/drover/core/agent/allocdir"
)

// Listener accepts nothing: sockets of tasks exist on Linux only.
type Listener struct {
	once sync.Once
	over chan struct{}
}

// New returns a Listener.
func New() (*Listener, error) { return &Listener{over: make(chan struct{})}, nil }

// Open does nothing on this system.
func (l *Listener) Open(allocdir.Dir, string) error { return nil }

// Shut does nothing on this system.
func (l *Listener) Shut(allocdir.Dir, string) {}

// Accept waits for Close.
func (l *Listener) Accept() (net.Conn, error) {
	<-l.over
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return address("sockets of tasks") }
