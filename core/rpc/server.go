// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Server serves nodes of other machines over gRPC.
type Server struct {
	servers Servers
	grpc    *grpc.Server
	http    *HTTPListener
	logger  hclog.Logger
	door    door

	complain complaints // about calls of unknown versions
	jobs     *encodedJobs

	mu    sync.Mutex
	calls map[string]*remoteCall // calls that wait for the node's answer, by id
}

// DefaultHandshake is the default time limit of a connection's handshake.
const DefaultHandshake = 5 * time.Second

// maxStreams is the maximum number of concurrent streams of one connection: the
// requests that a node forwards (512 at most), its answers to calls, and its session.
// A client waits when it has reached the limit.
const maxStreams = 1024

// NewServer returns a gRPC server for servers, which should be a Doorkeeper. A nil config
// means no TLS, or the config of the Port whose connections it serves.
func NewServer(servers Servers, config *tls.Config, logger hclog.Logger) *Server {
	return NewServerWithin(servers, config, logger, DefaultHandshake)
}

// NewServerWithin is NewServer with another time limit for the handshake, which
// includes TLS and the HTTP/2 preface.
func NewServerWithin(servers Servers, config *tls.Config, logger hclog.Logger, handshake time.Duration) *Server {
	secure := newShaken()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	s := &Server{servers: servers, http: NewHTTPListener(), logger: logger.Named("rpc"), jobs: &encodedJobs{codec: newWireCodec()}, calls: map[string]*remoteCall{}}
	s.door.keeper, _ = servers.(Doorkeeper)
	s.grpc = grpc.NewServer(
		grpc.Creds(secure),
		grpc.ConnectionTimeout(handshake),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ForceServerCodec(serverCodec(s.jobs)),
		grpc.InTapHandle(s.door.enter),
		grpc.UnknownServiceHandler(s.unknown),
		grpc.MaxRecvMsgSize(largestRequest),
		grpc.MaxSendMsgSize(largestMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: aliveAnyway, Timeout: aliveWithin}),
		grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: aliveEvery / 2, PermitWithoutStream: true}),
	)
	s.grpc.RegisterService(service(), s)
	return s
}

// Serve accepts connections of nodes until Close.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve nodes at %s: %w", l.Addr(), err)
	}
	return nil
}

// survive runs the handler of a call. A panic fails only that call.
func (s *Server) survive(call string, do func() error) (err error) {
	defer panics.Handle(func(p *panics.Panic) {
		s.logger.Error("a call of a node panicked; this is a defect of drover", p.Fields("call", call)...)
		err = errdefs.Internalf("the call %s panicked; see the server's log", call)
	})
	return do()
}

// Close ends all sessions and calls.
func (s *Server) Close() {
	_ = s.http.Close() // never fails
	s.grpc.Stop()
}

// attach serves one session.
func (s *Server) attach(stream grpc.ServerStream) error {
	var id Identity
	if err := stream.RecvMsg(&id); err != nil {
		return err
	}
	node := &remoteNode{server: s, session: stream}
	defer node.end()
	if err := node.send(&toNode{Beats: true}); err != nil {
		return err
	}
	push := func(a *Assignments) error { return node.send(s.pushed(a)) }
	sessions, ok := s.servers.(Sessions)
	cut := cutOf(stream.Context())
	if !ok || cut == nil {
		go s.answerBeats(stream, id, node)
		return s.servers.Attach(stream.Context(), id, node, push)
	}
	end, err := sessions.Hold(stream.Context(), id, node, push, func(why error) { node.lose(why, cut) })
	if err != nil {
		return err
	}
	s.answerBeats(stream, id, node)
	cut(errdefs.Canceledf("the node has ended its session"))
	end()
	return context.Cause(stream.Context())
}

// pushed returns the message with assignments, and with fresh allocs unless they are too large.
func (s *Server) pushed(a *Assignments) *toNode {
	m := &toNode{Assignments: a}
	if len(a.Fresh) > 0 {
		if fresh := packAllocs(a.Fresh); s.jobs.fill(fresh) <= maxFresh {
			m.Fresh = fresh
		}
	}
	return m
}

// remoteNode is a Node at the other end of a session.
type remoteNode struct {
	server *Server

	mu      sync.Mutex // serializes Send on the stream
	session grpc.ServerStream
	ended   bool
}

func (n *remoteNode) send(m *toNode) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return errdefs.Unavailablef("the session of the node has ended")
	}
	return n.session.SendMsg(m)
}

// loseWithin is how long the end of a session waits until the node is told of it.
const loseWithin = time.Second

// lose tells the node why its session ends, and ends it. It does not wait: a node that does
// not read is not told.
func (n *remoteNode) lose(why error, cut context.CancelCauseFunc) {
	late := time.AfterFunc(loseWithin, func() { cut(why) })
	go func() {
		_ = n.send(&toNode{End: &endMessage{Class: string(errdefs.ClassOf(why)), Text: why.Error()}}) // it may have gone
		late.Stop()
		cut(why)
	}()
}

// end makes later sends fail: the stream must not be used after its handler.
func (n *remoteNode) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
}

// remoteCall is a call that a node has yet to answer.
type remoteCall struct {
	server *Server
	ctx    context.Context
	in     <-chan []byte
	result chan error // capacity 1

	mu    sync.Mutex
	send  func([]byte) error
	ended bool
}

// takenWithin is how long a call waits until the node begins to answer it. A node that reads
// its session does so at once, so one that does not has an agent that hangs. What the node
// does after that may take longer.
const takenWithin = 30 * time.Second

// Call implements Node.
func (n *remoteNode) Call(ctx context.Context, call Call, in <-chan []byte, send func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &remoteCall{server: n.server, ctx: ctx, in: in, send: send, result: make(chan error, 1)}
	id := rand.Text()
	n.server.mu.Lock()
	n.server.calls[id] = c
	n.server.mu.Unlock()
	sent := make(chan error, 1)
	go func() { sent <- n.send(&toNode{CallID: id, Call: call, HasInput: in != nil}) }() // waits while the node does not read
	late := time.NewTimer(takenWithin)
	defer late.Stop()
	for {
		select {
		case err := <-sent:
			if err != nil {
				n.server.take(id)
				return lostNode(err)
			}
		case err := <-c.result:
			return err
		case <-late.C:
			if n.server.take(id) != nil {
				return errdefs.DeadlineExceededf("the node did not begin to answer within %s: its agent hangs, or its machine is overloaded; it may still carry out the call, so see what it did before you repeat it", takenWithin)
			}
		case <-n.session.Context().Done():
			cancel()
			n.server.abandon(id, c)
			return lostNode(n.session.Context().Err())
		case <-ctx.Done():
			n.server.abandon(id, c)
			return ctx.Err()
		}
	}
}

func lostNode(cause error) error {
	return errdefs.Unavailablef("the session of the node broke off during the call; retry when the node is back: %w", cause)
}

// take removes a waiting call; nil if the node is already answering it.
func (s *Server) take(id string) *remoteCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[id]
	delete(s.calls, id)
	return c
}

// abandon returns once nothing more is sent to the caller.
func (s *Server) abandon(id string, c *remoteCall) {
	if s.take(id) == nil {
		<-c.result
	}
}

// answer serves the stream on which a node answers one call. The id authenticates the
// stream, since it was sent over the node's session.
func (s *Server) answer(stream grpc.ServerStream) error {
	var first answerMessage
	if err := stream.RecvMsg(&first); err != nil {
		return err
	}
	c := s.take(first.CallID)
	if c == nil {
		return errdefs.Canceledf("the caller no longer waits for the answer to this call")
	}
	err := c.run(stream)
	c.finish(err)
	return nil
}

// run copies input and output until either side ends the call.
func (c *remoteCall) run(stream grpc.ServerStream) error {
	ended := make(chan error, 2)
	go func() {
		ended <- c.server.survive(methodAnswer, func() error { return c.receive(stream) })
	}()
	if c.in != nil {
		go func() {
			err := c.server.survive("input of "+methodAnswer, func() error { c.feed(stream); return nil })
			if err != nil {
				ended <- err
			}
		}()
	}
	select {
	case err := <-ended:
		return err
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// receive passes on the node's data until the node ends the call.
func (c *remoteCall) receive(stream grpc.ServerStream) error {
	for {
		var m answerMessage
		if err := stream.RecvMsg(&m); err != nil {
			return lostNode(err)
		}
		if m.End {
			return m.err()
		}
		if err := c.deliver(m.Data); err != nil {
			return err
		}
	}
}

func (c *remoteCall) deliver(data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return context.Canceled
	}
	return c.send(data)
}

// finish ends the call; nothing is delivered after it.
func (c *remoteCall) finish(err error) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.result <- err
}

// feed sends input to the node. Its errors are dropped, because receive notices them
// too.
func (c *remoteCall) feed(stream grpc.ServerStream) {
	for {
		select {
		case <-stream.Context().Done():
			return
		case data, more := <-c.in:
			if err := stream.SendMsg(&inputMessage{Data: data, End: !more}); err != nil || !more {
				return
			}
		}
	}
}
