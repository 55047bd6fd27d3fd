// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Calls between servers are a gRPC service of their own. Its callers must show the
// certificate of a server, and the calls carry no identity of a node. core/peer defines the
// calls.
const (
	peerService    = "drover.rpc.v1.Peers"
	methodNodeCall = "NodeCall"
)

func peerPath(method string) string { return "/" + peerService + "/" + method }

// PeerMethod is a call between servers with one answer.
type PeerMethod struct{ desc grpc.MethodDesc }

// NewPeerMethod returns the method with a name, which do answers.
func NewPeerMethod[Request, Reply any](name string, do func(context.Context, *Request) (Reply, error)) PeerMethod {
	return PeerMethod{grpc.MethodDesc{
		MethodName: name,
		Handler: func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			if err := fromServer(ctx); err != nil {
				return nil, errdefs.ToGRPC(err)
			}
			request := new(Request)
			message := &bounded{into: request, limits: knownLimits}
			if err := errors.Join(decode(message), message.err); err != nil {
				return nil, errdefs.ToGRPC(err)
			}
			var reply Reply
			err := server.(*Server).survive(name, func() (err error) {
				reply, err = do(ctx, request)
				return err
			})
			if err != nil {
				return nil, errdefs.ToGRPC(err)
			}
			return &reply, nil
		},
	}}
}

// AskPeer makes a call to another server.
func AskPeer[Reply any](ctx context.Context, c *Client, method string, request any) (reply Reply, err error) {
	if err := c.conn.Invoke(ctx, peerPath(method), request, &reply); err != nil {
		return reply, fmt.Errorf("ask the server at %s: %w", c, errdefs.FromGRPC(err))
	}
	return reply, nil
}

// ServePeers makes the server answer calls of other servers: the methods, and calls to
// nodes for which attached returns one. It must be called before Serve.
func (s *Server) ServePeers(attached func(nodeID string) (Node, bool), methods ...PeerMethod) {
	desc := &grpc.ServiceDesc{
		ServiceName: peerService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{bothWays(methodNodeCall, func(s *Server, stream grpc.ServerStream) error {
			return s.callAttached(stream, attached)
		})},
	}
	for _, m := range methods {
		desc.Methods = append(desc.Methods, m.desc)
	}
	s.grpc.RegisterService(desc, s)
}

// nodeCallMessage begins a call to a node through another server; input follows.
type nodeCallMessage struct {
	NodeID   string
	Call     Call
	HasInput bool
}

// callAttached passes a call of another server on to a node.
func (s *Server) callAttached(stream grpc.ServerStream, attached func(nodeID string) (Node, bool)) error {
	if err := fromServer(stream.Context()); err != nil {
		return err
	}
	var m nodeCallMessage
	if err := stream.RecvMsg(&m); err != nil {
		return err
	}
	node, ok := attached(m.NodeID)
	if !ok {
		return errdefs.Unavailablef("No path to node %q: it has left the server that had its session; retry", m.NodeID)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	var in chan []byte
	if m.HasInput {
		in = make(chan []byte)
		go readInput(ctx, cancel, stream, in) // it ends with the stream, which ends with this call
	}
	err := node.Call(ctx, m.Call, in, func(data []byte) error {
		return stream.SendMsg(&answerMessage{Data: data})
	})
	return stream.SendMsg(endOf(err))
}

// CallNode makes a call to a node that is attached to the server at the other end: see
// Node.Call.
func (c *Client) CallNode(ctx context.Context, nodeID string, call Call, in <-chan []byte, send func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	desc := grpc.StreamDesc{StreamName: methodNodeCall, ServerStreams: true, ClientStreams: true}
	stream, err := c.conn.NewStream(ctx, &desc, peerPath(methodNodeCall))
	if err != nil {
		cancel()
		return lostServer(c, err)
	}
	fed := make(chan struct{})
	defer func() { cancel(); <-fed }()
	if err := stream.SendMsg(&nodeCallMessage{NodeID: nodeID, Call: call, HasInput: in != nil}); err != nil {
		close(fed)
		return lostServer(c, recvError(stream, err))
	}
	go func() {
		defer close(fed)
		feedInput(ctx, stream, in)
	}()
	for {
		var m answerMessage
		if err := stream.RecvMsg(&m); err != nil {
			return lostServer(c, err)
		}
		if m.End {
			return m.err()
		}
		if err := send(m.Data); err != nil {
			return err
		}
	}
}

// feedInput sends input until it is closed. Its errors are dropped, because the receiver
// notices them too. in may be nil.
func feedInput(ctx context.Context, stream grpc.ClientStream, in <-chan []byte) {
	if in == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case data, more := <-in:
			if err := stream.SendMsg(&inputMessage{Data: data, End: !more}); err != nil || !more {
				return
			}
		}
	}
}

func lostServer(c *Client, err error) error {
	return fmt.Errorf("call a node through the server at %s: %w", c, errdefs.FromGRPC(err))
}
