// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net"
	"strconv"
	"sync"
	"time"
)

// DefaultConnsPerClient is how many connections one address may hold.
const DefaultConnsPerClient = 100

const refusal = "Your IP is issuing too many concurrent connections, please rate limit your calls\n"

// limitListener refuses connections of addresses that hold too many already.
// hashicorp/go-connlimit does the same; it is not worth a module for so little.
type limitListener struct {
	net.Listener
	each int

	mu    sync.Mutex
	conns map[string]int
}

func limitConns(l net.Listener, each int) net.Listener {
	if each <= 0 {
		return l
	}
	return &limitListener{Listener: l, each: each, conns: map[string]int{}}
}

// Accept returns the next connection that is within the limit.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			addr = c.RemoteAddr().String() // not TCP: all are one client
		}
		if l.take(addr) {
			return &countedConn{Conn: c, done: func() { l.give(addr) }}, nil
		}
		// Into the empty buffer of a new socket: it never waits.
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte("HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(len(refusal)) + "\r\nConnection: close\r\n\r\n" + refusal))
		_ = c.Close() // the client has its answer, or is gone
	}
}

func (l *limitListener) take(addr string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[addr] >= l.each {
		return false
	}
	l.conns[addr]++
	return true
}

func (l *limitListener) give(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[addr]--; l.conns[addr] == 0 {
		delete(l.conns, addr)
	}
}

// countedConn gives its place back when it closes.
type countedConn struct {
	net.Conn
	once sync.Once
	done func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}
