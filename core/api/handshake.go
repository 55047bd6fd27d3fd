// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// DefaultHandshake is the default time limit for the TLS handshake of a connection.
const DefaultHandshake = 5 * time.Second

// handshakes is a listener whose connections have completed the TLS handshake. It closes
// a connection that takes too long, without a delay for others.
type handshakes struct {
	net.Listener
	config *tls.Config
	within time.Duration

	ctx    context.Context // until Close
	cancel context.CancelFunc
	ready  chan net.Conn
	failed chan error // of size 1: the error with which the inner listener has ended
	work   sync.WaitGroup
}

func newHandshakes(l net.Listener, config *tls.Config, within time.Duration) *handshakes {
	h := &handshakes{Listener: l, config: config, within: within, ready: make(chan net.Conn), failed: make(chan error, 1)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.work.Go(h.accept)
	return h
}

func (h *handshakes) accept() {
	for {
		raw, err := h.Listener.Accept()
		if err != nil {
			h.failed <- err
			return
		}
		h.work.Go(func() { h.shake(tls.Server(raw, h.config)) })
	}
}

// shake hands a connection to Accept after its handshake. If that failed, the connection
// remembers the error, and the HTTP server answers a client that does not speak TLS.
func (h *handshakes) shake(c *tls.Conn) {
	ctx, cancel := context.WithTimeout(h.ctx, h.within)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil && ctx.Err() != nil {
		_ = c.Close() // closed already
		return
	}
	select {
	case h.ready <- c:
	case <-h.ctx.Done():
		_ = c.Close() // nobody takes it any more
	}
}

// Accept returns the next connection that is ready.
func (h *handshakes) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case err := <-h.failed:
		h.failed <- err // it stays so
		return nil, err
	}
}

// Close closes the listener and the connections that are not ready.
func (h *handshakes) Close() error {
	err := h.Listener.Close()
	h.cancel()
	h.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
