// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/drover-project/drover/sdk/errdefs"
)

// An agent that is only a node forwards requests for the public API to a server. They
// are sent as HTTP/1.1 over a stream of the node's existing connection, which also
// secures them, so that long polls, streams and websockets need no further support.
// See docs/adr/0016.

// methodHTTP is a bidirectional stream of bytes that carries one connection.
const methodHTTP = "HTTP"

const (
	// httpPiece is the maximum size of one message of such a stream.
	httpPiece = 64 << 10
	// openTimeout limits the wait for a server when a stream is opened.
	openTimeout = 10 * time.Second
)

func httpStream() grpc.StreamDesc {
	return bothWays(methodHTTP, func(s *Server, stream grpc.ServerStream) error { return s.http.serve(stream) })
}

// HTTP returns a listener for the connections that nodes open with DialHTTP. They are
// refused while nobody accepts.
func (s *Server) HTTP() net.Listener {
	return s.http.Open()
}

// DialHTTP opens a connection to the HTTP API of the servers. It ends with Close, not
// with ctx.
func (c *Client) DialHTTP(ctx context.Context) (net.Conn, error) {
	ctx, done := context.WithTimeout(ctx, openTimeout)
	defer done()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// ctx limits only the wait for the connection to a server.
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
		defer cancel() // notifies the other side
		carry(theirs, receiver(stream), sender(stream))
	}()
	return ours, nil
}

// receiver and sender are the two directions of a stream of bytes.
func receiver(stream interface{ RecvMsg(any) error }) func() ([]byte, error) {
	return func() ([]byte, error) {
		var piece filePiece
		err := stream.RecvMsg(&piece)
		return piece.Data, err
	}
}

func sender(stream interface{ SendMsg(any) error }) func([]byte) error {
	return func(b []byte) error { return stream.SendMsg(&filePiece{Data: b}) }
}

// carry copies bytes between a connection and a stream until one of them ends. send
// must not keep its argument; receive must return soon after carry has returned.
func carry(conn net.Conn, receive func() ([]byte, error), send func([]byte) error) {
	defer conn.Close()
	received := make(chan struct{})
	go func() {
		defer close(received)
		defer conn.Close()
		for {
			data, err := receive()
			if err != nil {
				return
			}
			if _, err := conn.Write(data); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, httpPiece)
	for {
		n, err := conn.Read(buf)
		if n > 0 && send(buf[:n]) != nil {
			<-received // the other end has closed; deliver what it sent before
			return
		}
		if err != nil {
			return
		}
	}
}

// DialNode opens a connection to the HTTP API of a node's agent, over the node's
// session. It ends with Close.
func DialNode(node Node) net.Conn {
	ours, theirs := net.Pipe()
	conn := &toAgent{Conn: ours}
	ctx, cancel := context.WithCancel(context.Background())
	in, out, ended := make(chan []byte), make(chan []byte), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(out)
		err := node.Call(ctx, Call{Method: MethodHTTP}, in, func(b []byte) error {
			select {
			case out <- bytes.Clone(b):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			conn.failure.Store(&err)
		}
	}()
	go func() {
		defer cancel()
		carry(theirs, from(ctx, out), func(b []byte) error {
			select {
			case in <- bytes.Clone(b):
				return nil
			case <-ended:
				return net.ErrClosed
			}
		})
	}()
	return conn
}

// from returns a function that receives from a channel.
func from(ctx context.Context, in <-chan []byte) func() ([]byte, error) {
	return func() ([]byte, error) {
		select {
		case b, ok := <-in:
			if !ok {
				return nil, io.EOF
			}
			return b, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// toAgent is a connection to a node's agent. If it cannot be opened, Read returns the
// reason.
type toAgent struct {
	net.Conn
	failure atomic.Pointer[error]
}

func (c *toAgent) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if why := c.failure.Load(); why != nil && errors.Is(err, io.EOF) {
		err = *why
	}
	return n, err
}

// HTTPListener passes connections that arrive over other connections to an HTTP
// server. They are refused while nobody accepts.
type HTTPListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	serving bool
}

// NewHTTPListener returns a listener that refuses connections until Open.
func NewHTTPListener() *HTTPListener {
	return &HTTPListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Open makes the listener accept connections.
func (l *HTTPListener) Open() net.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = true
	return l
}

func (l *HTTPListener) serve(stream grpc.ServerStream) error {
	peers := net.Addr(elsewhere{})
	if p, ok := peer.FromContext(stream.Context()); ok {
		peers = p.Addr
	}
	return l.take(stream.Context(), peers, receiver(stream), sender(stream))
}

// Answer serves a connection that a server opened with DialNode.
func (l *HTTPListener) Answer(ctx context.Context, in <-chan []byte, send func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return l.take(ctx, elsewhere{}, from(ctx, in), send)
}

func (l *HTTPListener) take(ctx context.Context, peers net.Addr, receive func() ([]byte, error), send func([]byte) error) error {
	l.mu.Lock()
	serving := l.serving
	l.mu.Unlock()
	if !serving {
		return errdefs.Unavailablef("this agent does not serve its HTTP API yet")
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- &inner{ours, peers}:
	case <-l.closed:
		return errdefs.Unavailablef("this agent is ending")
	case <-ctx.Done():
		return ctx.Err()
	}
	carry(theirs, receive, send)
	return nil
}

// Accept waits for the next connection.
func (l *HTTPListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections.
func (l *HTTPListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns an address that cannot be dialed.
func (l *HTTPListener) Addr() net.Addr { return elsewhere{} }

// elsewhere is the address of a peer behind another connection.
type elsewhere struct{}

func (elsewhere) Network() string { return "rpc" }
func (elsewhere) String() string  { return "another machine of the cluster" }

// inner is a connection within another one, with that one's remote address.
type inner struct {
	net.Conn
	peer net.Addr
}

// RemoteAddr returns the address of the other machine.
func (c *inner) RemoteAddr() net.Addr { return c.peer }
