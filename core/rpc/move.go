// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/drover-project/drover/core/srvname"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ReasonLeave is the reason code (errdefs.ReasonOf) of a server that cannot serve the node
// and asks it to move to another server.
const ReasonLeave = "try_another_server"

// leaveFor is how long a client avoids a server that it has left, so that it connects to
// another one.
const leaveFor = 2 * time.Second

// Mover is a Servers with a choice of servers.
type Mover interface {
	// Leave ends the connection to the current server, and with it everything on it; the
	// next call goes to another one, chosen at random. It returns false, and does nothing,
	// if no other server is known.
	Leave() bool
	// Known returns the addresses of all known servers.
	Known() []string
	// Learn adds servers to the configured ones, as a lease does.
	Learn(addresses []string)
}

var _ Mover = (*Client)(nil)

// connect opens a connection to a server and notes which one it is. The name of a service
// stands for several servers, which share the available time.
func (c *Client) connect(ctx context.Context, address string) (net.Conn, error) {
	servers := []string{address}
	if srvname.Is(address) {
		var err error
		if servers, err = srvname.Lookup(ctx, address); err != nil {
			return nil, err
		}
	}
	var failed error
	for i, server := range servers {
		conn, err := dialWithin(ctx, server, len(servers)-i)
		if err == nil {
			c.mu.Lock()
			c.current, c.via = conn.RemoteAddr().String(), address
			c.mu.Unlock()
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// dialWithin connects within a fraction of the time until the deadline of ctx.
func dialWithin(ctx context.Context, server string, parts int) (net.Conn, error) {
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(parts))
		defer cancel()
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", server)
}

// Leave implements Mover.
func (c *Client) Leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var others, left []string
	for _, a := range c.known {
		if a == c.current || a == c.via {
			left = append(left, a)
		} else {
			others = append(others, a)
		}
	}
	if len(others) == 0 || len(left) == 0 {
		return false
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	c.known = append(slices.Clone(others), left...)
	c.resolver.UpdateState(resolver.State{Addresses: endpoints(others)})
	time.AfterFunc(leaveFor, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.resolver.UpdateState(resolver.State{Addresses: endpoints(c.known)})
	})
	return true
}

// Learn implements Mover.
func (c *Client) Learn(addresses []string) { c.learn(addresses) }

// SetServers replaces the configured servers. The connection stays if it is to one of
// them. InvalidArgument: an address is neither HOST:PORT nor the name of a service, or
// there is none.
func (c *Client) SetServers(addresses []string) error {
	if len(addresses) == 0 {
		return errdefs.InvalidArgumentf("no server is given; give HOST:PORT")
	}
	if err := validAddresses(addresses); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configured = slices.Compact(slices.Clone(addresses))
	c.use(c.configured)
	return nil
}

// errReplaced ends the sessions with a server that is none of the node's any more.
var errReplaced = errdefs.Abortedf("the session with the servers ended: its server is no longer one of the servers of this node")

// use makes known the servers of the client. A session on a connection to any other ends:
// gRPC lets streams on such a connection go on, but sends everything else elsewhere, also
// the answers to the session's requests. The lock must be held.
func (c *Client) use(known []string) {
	c.known = known
	c.resolver.UpdateState(resolver.State{Addresses: endpoints(known)})
	if slices.Contains(known, c.current) || slices.Contains(known, c.via) {
		return
	}
	for _, end := range c.sessions {
		end(errReplaced)
	}
}

// holds notes that a session has begun; the caller calls what it returns when it has ended.
func (c *Client) holds(session *beats, end context.CancelCauseFunc) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		c.sessions = map[*beats]context.CancelCauseFunc{}
	}
	c.sessions[session] = end
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sessions, session)
	}
}

func validAddresses(addresses []string) error {
	for _, a := range addresses {
		if srvname.Is(a) {
			if err := srvname.Check(a); err != nil {
				return err
			}
			continue
		}
		host, port, err := net.SplitHostPort(a)
		if err != nil {
			return errdefs.InvalidArgumentf("the server address %q cannot be used; give HOST:PORT: %w", a, err)
		}
		if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
			return errdefs.InvalidArgumentf("the server address %q cannot be used; give HOST:PORT, where PORT is 1 to 65535", a)
		}
	}
	return nil
}

// merge returns the servers that a client knows: the ones that it knew in their order, as
// long as they are configured or still announced, and then the new ones in random order,
// which spreads the nodes over them. Loopback addresses refer to the server's machine, so
// they are of use only to a client on it.
func merge(known, configured, told []string, local bool) []string {
	all := slices.Clone(configured)
	for _, a := range told {
		host, _, err := net.SplitHostPort(a)
		if err == nil && (local || !net.ParseIP(host).IsLoopback()) && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	var out, added []string
	for _, a := range known {
		if slices.Contains(all, a) {
			out = append(out, a)
		}
	}
	for _, a := range all {
		if !slices.Contains(out, a) {
			added = append(added, a)
		}
	}
	rand.Shuffle(len(added), func(i, j int) { added[i], added[j] = added[j], added[i] })
	return append(out, added...)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}
