// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/drover-project/drover/core/rpc"
)

// wire is the network between servers of a test. Servers can be cut off from it.
type wire struct {
	mu    sync.Mutex
	cut   map[string]bool
	conns map[*wired]struct{}
}

var errCut = errors.New("the test has cut this connection")

// wired is a connection of the servers with these addresses; "" is unknown.
type wired struct {
	net.Conn
	wire     *wire
	from, to string
}

// Close closes the connection.
func (c *wired) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}

func (w *wire) add(conn net.Conn, from, to string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut[from] || w.cut[to] {
		return nil, errors.Join(errCut, conn.Close())
	}
	if w.conns == nil {
		w.conns = map[*wired]struct{}{}
	}
	c := &wired{Conn: conn, wire: w, from: from, to: to}
	w.conns[c] = struct{}{}
	return c, nil
}

func (w *wire) isCut(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[address]
}

func (w *wire) set(address string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = map[string]bool{}
	}
	w.cut[address] = cut
	for c := range w.conns {
		if cut && (c.from == address || c.to == address) {
			_ = c.Conn.Close() // unsent data is lost, as on a cut network
			delete(w.conns, c)
		}
	}
}

// dialer returns how the server with an address reaches the raft of others.
func (w *wire) dialer(from string) func(string, time.Duration) (net.Conn, error) {
	dial := rpc.DialRaft(nil)
	return func(to string, timeout time.Duration) (net.Conn, error) {
		if w.isCut(from) || w.isCut(to) {
			return nil, errCut
		}
		conn, err := dial(to, timeout)
		if err != nil {
			return nil, err
		}
		return w.add(conn, from, to)
	}
}

// peerDialer returns how the server with an address calls others.
func (w *wire) peerDialer(from string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		if w.isCut(from) || w.isCut(to) {
			return nil, errCut
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
		if err != nil {
			return nil, err
		}
		return w.add(conn, from, to)
	}
}

// listen accepts connections to the server with an address.
func (w *wire) listen(address string, l net.Listener) net.Listener {
	return &listener{l, w, address}
}

type listener struct {
	net.Listener
	wire    *wire
	address string
}

// Accept returns the next connection that is not cut.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err := l.wire.add(conn, "", l.address); err == nil {
			return c, nil
		}
	}
}
