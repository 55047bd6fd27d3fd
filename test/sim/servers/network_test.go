// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package servers_test

import (
	"errors"
	"net"
	"sync"
	"time"
)

// network connects servers by pipes in memory. A connection on which anything was lost never
// delivers anything again, as one of TCP whose peer is gone.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	cut       map[[2]string]bool // from, to
	conns     map[*conn]bool
}

func newNetwork() *network {
	return &network{listeners: map[string]*listener{}, cut: map[[2]string]bool{}, conns: map[*conn]bool{}}
}

// latency is how long it takes to connect, so that time passes for whoever tries again at
// once.
const latency = 2 * time.Millisecond

var errUnreachable = errors.New("nobody answers")

// dial returns how a server connects to others.
func (n *network) dial(from string) func(string, time.Duration) (net.Conn, error) {
	return func(to string, _ time.Duration) (net.Conn, error) {
		time.Sleep(latency)
		n.mu.Lock()
		defer n.mu.Unlock()
		l := n.listeners[to]
		if l == nil || n.cut[[2]string{from, to}] || n.cut[[2]string{to, from}] {
			return nil, errUnreachable
		}
		near, far := net.Pipe()
		a, b := &conn{Conn: near, n: n, from: from, to: to}, &conn{Conn: far, n: n, from: to, to: from}
		n.conns[a], n.conns[b] = true, true
		select {
		case l.queue <- b:
			return a, nil
		default:
			return nil, errors.Join(errUnreachable, near.Close(), far.Close())
		}
	}
}

// lose makes everything from one server to another be lost.
func (n *network) lose(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]string{from, to}] = true
	for c := range n.conns {
		if c.from == from && c.to == to {
			c.dead = true
		}
	}
}

// hear ends the losses of what a server sends.
func (n *network) hear(from string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for link := range n.cut {
		if link[0] == from {
			delete(n.cut, link)
		}
	}
}

// heal lets new connections through.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}

// listen returns the listener of a server.
func (n *network) listen(name string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{n: n, name: name, queue: make(chan net.Conn, 100), done: make(chan struct{})}
	n.listeners[name] = l
	return l
}

// listener is the port of a server; its name is its address.
type listener struct {
	n     *network
	name  string
	queue chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close also ends all connections of the server.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		if l.n.listeners[l.name] == l {
			delete(l.n.listeners, l.name)
		}
		for c := range l.n.conns {
			if c.from == l.name || c.to == l.name {
				_ = c.Conn.Close() // a pipe's Close never fails
				delete(l.n.conns, c)
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.name) }

type address string

func (address) Network() string  { return "simulated" }
func (a address) String() string { return string(a) }

// conn is one end of a connection.
type conn struct {
	net.Conn
	n        *network
	from, to string
	dead     bool // what is written is lost
}

func (c *conn) Write(b []byte) (int, error) {
	c.n.mu.Lock()
	dead := c.dead
	c.n.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}
