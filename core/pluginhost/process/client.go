// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/plugin"
)

// endLimit is how long the end of a killed process is awaited.
const endLimit = 2 * time.Second

// client is go-plugin's client of one process, with the connections that it has made.
// go-plugin forgets a connection if the process ends while it opens its first stream;
// such a connection would try to connect again for as long as the agent runs.
type client struct {
	*goplugin.Client
	cfg   *goplugin.ClientConfig // go-plugin reads it when it connects
	dials dials

	// addr is where the process listens, and session its pid; found sets both before a
	// connection is made.
	addr    net.Addr
	session int
}

// newClient returns a client with the settings that all clients share.
func newClient(cfg goplugin.ClientConfig) *client {
	c := &client{cfg: &cfg}
	cfg.HandshakeConfig = plugin.Handshake()
	cfg.AllowedProtocols = []goplugin.Protocol{goplugin.ProtocolGRPC}
	cfg.GRPCDialOptions = slices.Concat(plugin.DialOptions(), []grpc.DialOption{c.dials.option(), grpc.WithContextDialer(c.dial)}, plainTexts(), knownSizes())
	c.Client = goplugin.NewClient(&cfg)
	return c
}

func (c *client) found(addr net.Addr, session int) { c.addr, c.session = addr, session }

// dial connects to the process, and to no other.
func (c *client) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, c.addr.Network(), c.addr.String())
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn, c.session); err != nil {
		_ = conn.Close() // nothing was sent
		return nil, err
	}
	return plugin.Direct(conn), nil
}

// end makes go-plugin end the process, and reports whether it has ended within the
// limit. go-plugin also waits until nobody has the process's outputs open, which may
// be the plugin's tasks; it continues to wait in the background.
func (c *client) end(limit time.Duration) bool {
	defer c.dials.close()
	ended := make(chan struct{})
	go func() { c.Kill(); close(ended) }()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-ended:
		return true
	case <-late.C:
		return false
	}
}

// endLaunch ends a process that failed to start, with its children, and returns its
// exit state; nil if that is unknown.
func (c *client) endLaunch(cmd *exec.Cmd) *os.ProcessState {
	if cmd.Process != nil {
		killSession(cmd.Process.Pid)
	}
	if !c.end(endLimit) {
		return nil
	}
	return cmd.ProcessState
}

// dials are the connections that go-plugin has made to one process.
type dials struct {
	mu     sync.Mutex
	made   map[*grpc.ClientConn]bool
	closed bool
}

// option has a connection noted before its first stream is opened.
func (d *dials) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		d.note(conn)
		return next(ctx, desc, conn, method, opts...)
	})
}

func (d *dials) note(conn *grpc.ClientConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = conn.Close() // a second close is its only error
		return
	}
	if d.made == nil {
		d.made = map[*grpc.ClientConn]bool{}
	}
	d.made[conn] = true
}

// close closes the connections, and every connection that is noted later.
func (d *dials) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for conn := range d.made {
		_ = conn.Close() // a second close is its only error
	}
	d.made = nil
}
