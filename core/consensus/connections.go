// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"net"
	"sync"
)

// connections tracks open connections, so that Close of a Node leaves none open:
// raft's transport closes its listener, but waits for peers to close accepted
// connections.
type connections struct {
	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
}

// connection removes itself from the list when it is closed.
type connection struct {
	net.Conn
	list *connections
}

func (c *connections) add(conn net.Conn) net.Conn {
	tracked := &connection{Conn: conn, list: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close() // its first use returns the error
		return tracked
	}
	if c.open == nil {
		c.open = map[*connection]struct{}{}
	}
	c.open[tracked] = struct{}{}
	return tracked
}

func (c *connection) Close() error {
	c.list.mu.Lock()
	delete(c.list.open, c)
	c.list.mu.Unlock()
	return c.Conn.Close()
}

// closeAll closes all open connections and those that are added later.
func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Conn.Close() // nobody waits for unsent data
	}
	c.open = nil
}
