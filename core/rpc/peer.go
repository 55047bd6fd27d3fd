// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/drover-project/drover/sdk/errdefs"
)

// idlePeer is how long an unused connection to another server stays open.
const idlePeer = 5 * time.Minute

// DialPeer returns a client with which a server reaches another one, at one address
// ("HOST:PORT"). It connects when it is first used, and closes the connection while nothing
// uses it. A nil config means no TLS, a nil connect TCP.
func DialPeer(address string, config *tls.Config, connect func(ctx context.Context, address string) (net.Conn, error)) (*Client, error) {
	options := []grpc.DialOption{grpc.WithIdleTimeout(idlePeer)}
	if connect != nil {
		options = append(options, grpc.WithContextDialer(connect))
	}
	c, err := dial([]string{address}, config, options...)
	if err == nil {
		c.fixed = true
	}
	return c, err
}

// String returns the address of the server, or the addresses.
func (c *Client) String() string { return joined(c.Known()) }

// Reach waits until the connection is up. If it fails, nothing was sent.
func (c *Client) Reach(ctx context.Context) error {
	for {
		state := c.conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Shutdown:
			return errdefs.Unavailablef("the connection to %s is closed", c)
		case connectivity.Idle:
			c.conn.Connect()
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			return errdefs.Unavailablef("no connection to the server at %s: it does not answer, or a firewall is between: %w", c, ctx.Err())
		}
		if state == connectivity.Connecting && c.conn.GetState() == connectivity.TransientFailure {
			return errdefs.Unavailablef("no connection to the server at %s: %w", c, errRefused)
		}
	}
}

var errRefused = errors.New("nothing listens there, or its certificate is not accepted")
