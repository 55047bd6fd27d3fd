// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/drover-project/drover/sdk/errdefs"
)

// An agent that is only a node hands requests for the public API on to a server.
// They travel as they are, HTTP/1.1 on a stream of the connection that the node
// has anyway: what guards that guards them, and long polls, streams and
// websockets need nothing of their own. docs/adr/0016 says why.

// methodHTTP is a stream of bytes in both directions: one connection.
const methodHTTP = "HTTP"

const (
	// httpPiece bounds one message of such a stream.
	httpPiece = 64 << 10
	// openTimeout bounds the wait for a server when one is opened.
	openTimeout = 10 * time.Second
)

func httpStream() grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: methodHTTP, ServerStreams: true, ClientStreams: true, Handler: func(s any, stream grpc.ServerStream) error {
		return errdefs.ToGRPC(s.(*Server).http.serve(stream))
	}}
}

// HTTP is the listener whose connections are those that nodes open with DialHTTP.
// Without somebody who accepts, they are refused.
func (s *Server) HTTP() net.Listener {
	s.http.open()
	return s.http
}

// DialHTTP opens a connection to the HTTP API of the servers. It ends with Close,
// not with ctx.
func (c *Client) DialHTTP(ctx context.Context) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, openTimeout)
	defer done()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// Opening waits for the connection to a server: for so long ctx counts.
	stop := context.AfterFunc(ctx, cancel)
	stream, err := c.stream(life, methodHTTP)
	if !stop() || err != nil {
		cancel()
		if err == nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("reach a server: %w", errdefs.FromGRPC(err))
	}
	ours, theirs := net.Pipe()
	go func() {
		defer cancel()
		carry(theirs, stream)
	}()
	return ours, nil
}

// bytesStream is either side of a stream of bytes.
type bytesStream interface {
	SendMsg(any) error
	RecvMsg(any) error
}

// carry moves bytes between a connection and a stream until one of them ends.
func carry(conn net.Conn, stream bytesStream) {
	go func() { // ends with the stream
		defer conn.Close()
		for {
			var piece filePiece
			if stream.RecvMsg(&piece) != nil {
				return
			}
			if _, err := conn.Write(piece.Data); err != nil {
				return
			}
		}
	}()
	defer conn.Close()
	buf := make([]byte, httpPiece)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if stream.SendMsg(&filePiece{Data: buf[:n]}) != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	if s, ok := stream.(grpc.ClientStream); ok {
		_ = s.CloseSend() // the other side ends when it hears of it, or breaks off
	}
}

// httpListener hands connections of nodes to who serves the HTTP API.
type httpListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	serving bool
}

func newHTTPListener() *httpListener {
	return &httpListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *httpListener) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = true
}

func (l *httpListener) serve(stream grpc.ServerStream) error {
	l.mu.Lock()
	serving := l.serving
	l.mu.Unlock()
	if !serving {
		return errdefs.Unimplementedf("this server does not serve the HTTP API to nodes")
	}
	ours, theirs := net.Pipe()
	from := net.Addr(ours.RemoteAddr())
	if p, ok := peer.FromContext(stream.Context()); ok {
		from = p.Addr
	}
	select {
	case l.conns <- &fromNode{ours, from}:
	case <-l.closed:
		return errdefs.Unavailablef("this server is ending")
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	carry(theirs, stream)
	return nil
}

// Accept waits for the next connection of a node.
func (l *httpListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections.
func (l *httpListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is no address that can be dialed.
func (l *httpListener) Addr() net.Addr { return nodesAddr{} }

type nodesAddr struct{}

func (nodesAddr) Network() string { return "rpc" }
func (nodesAddr) String() string  { return "the nodes' connections" }

// fromNode is a connection whose other end is a node.
type fromNode struct {
	net.Conn
	from net.Addr
}

// RemoteAddr is the node's address.
func (c *fromNode) RemoteAddr() net.Addr { return c.from }
