// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package connlimit limits the number of connections per remote address on a listener.
// It does not know their protocol. core/api and cmd/drover import it.
// (hashicorp/go-connlimit does the same; this is too small for a dependency.)
package connlimit

import (
	"net"
	"sync"
	"time"
)

// Default is the default number of connections per address.
const Default = 100

type listener struct {
	net.Listener
	each    int
	refusal []byte

	mu    sync.Mutex
	conns map[string]int
}

// New returns a listener that writes refusal to connections above the limit of their
// address and closes them. If each <= 0 there is no limit.
func New(l net.Listener, each int, refusal []byte) net.Listener {
	if each <= 0 {
		return l
	}
	return &listener{Listener: l, each: each, refusal: refusal, conns: map[string]int{}}
}

// Accept returns the next connection that is within the limit.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			addr = c.RemoteAddr().String() // not TCP: all connections count as one client
		}
		if l.take(addr) {
			return &counted{Conn: c, done: func() { l.give(addr) }}, nil
		}
		if len(l.refusal) > 0 {
			// This write does not block: the buffer of a new socket is empty.
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.Write(l.refusal)
		}
		_ = c.Close() // the client has the answer, or is gone
	}
}

func (l *listener) take(addr string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[addr] >= l.each {
		return false
	}
	l.conns[addr]++
	return true
}

func (l *listener) give(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[addr]--; l.conns[addr] == 0 {
		delete(l.conns, addr)
	}
}

// counted releases its slot when it is closed.
type counted struct {
	net.Conn
	once sync.Once
	done func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}
