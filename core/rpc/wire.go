// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// The methods of the gRPC service.
const (
	serviceName        = "drover.rpc.v1.Servers"
	methodRegister     = "Register"
	methodChange       = "Change"
	methodBeat         = "Beat"
	methodAway         = "Away"
	methodUpdateAllocs = "UpdateAllocs"
	methodFetchAllocs  = "FetchAllocs"
	methodAttach       = "Attach"
	methodAnswer       = "Answer"
)

const (
	// largestMessage is the maximum size of a message that a node receives,
	// largestRequest of one that a server receives.
	largestMessage = 64 << 20
	largestRequest = 16 << 20
	// aliveEvery and aliveWithin define when a silent connection is considered dead.
	aliveEvery  = 10 * time.Second
	aliveWithin = 5 * time.Second
	// aliveAnyway is the silence after which a server pings a node. It is longer than
	// aliveEvery, after which the node pings, so that a server seldom has to ping thousands
	// of nodes. Missing heartbeats reveal a lost node earlier.
	aliveAnyway = 3 * aliveEvery
	// readBuffer is the size of a connection's read buffer on a server: most messages of a
	// node are short.
	readBuffer = 1 << 10
	// window is how much one side of a connection may send before the other has read it, in
	// one stream and in all together. It is fixed, because gRPC's own estimate needs a ping
	// with nearly each call, which was most of the cost of idle nodes' heartbeats.
	window = 1 << 20
)

func path(method string) string { return "/" + serviceName + "/" + method }

type updateMessage struct {
	ID      Identity
	Reports []*model.AllocReport
}

// toNode is a message of the session: assignments, a call, or the answer to a heartbeat. The
// node answers each call on a stream of its own, so that a slow reader of one answer delays
// nothing else.
type toNode struct {
	Assignments *Assignments
	Fresh       *allocsMessage // Fresh of Assignments
	CallID      string
	Call        Call
	HasInput    bool
	// Beats, in the first message, means that the server reads heartbeats on the stream.
	Beats bool
	Beat  *beatAnswer
	// End, in the last message, is why the servers end the session. Servers that hold a session
	// without a goroutine can say it in no other way: see Sessions.
	End *endMessage
}

// endMessage is an error.
type endMessage struct{ Class, Text string }

func (m *endMessage) err() error { return errdefs.New(errdefs.Class(m.Class), errors.New(m.Text)) }

// answerMessage is a message of the node on the stream of a call: first CallID, then
// data, then the end.
type answerMessage struct {
	CallID string
	Data   []byte
	End    bool
	Class  string // class of the error that ended the call, "" if there was none
	Text   string
}

// inputMessage is a message of a server on the stream of a call.
type inputMessage struct {
	Data []byte
	End  bool
}

func endOf(err error) *answerMessage {
	m := &answerMessage{End: true}
	if err != nil {
		m.Class, m.Text = string(errdefs.ClassOf(err)), err.Error()
	}
	return m
}

func (m *answerMessage) err() error {
	if m.Class == "" {
		return nil
	}
	return errdefs.New(errdefs.Class(m.Class), errors.New(m.Text))
}

// unary describes a method with one answer.
func unary[Request, Reply any](name string, do func(context.Context, Servers, *Request) (*Reply, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			request, s := new(Request), server.(*Server)
			limit := knownLimits
			if isStranger(ctx) {
				limit = strangerLimits
			}
			message := &bounded{into: request, limits: limit}
			if err := errors.Join(decode(message), message.err); err != nil {
				return nil, errdefs.ToGRPC(err)
			}
			var reply *Reply
			err := s.survive(name, func() (err error) {
				reply, err = do(ctx, s.servers, request)
				return err
			})
			if err != nil {
				return nil, errdefs.ToGRPC(err)
			}
			return reply, nil
		},
	}
}

// bothWays describes a bidirectional stream of messages.
func bothWays(name string, do func(*Server, grpc.ServerStream) error) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, ServerStreams: true, ClientStreams: true, Handler: func(server any, stream grpc.ServerStream) error {
		s := server.(*Server)
		return errdefs.ToGRPC(s.survive(name, func() error { return do(s, stream) }))
	}}
}

// service describes the gRPC service of a Server.
func service() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			unary(methodRegister, func(ctx context.Context, s Servers, n *model.Node) (*Lease, error) {
				lease, err := s.Register(ctx, n)
				return &lease, err
			}),
			unary(methodChange, func(ctx context.Context, s Servers, c *model.NodeChange) (*Lease, error) {
				lease, err := s.Change(ctx, c)
				return &lease, err
			}),
			unary(methodBeat, func(ctx context.Context, s Servers, id *Identity) (*Lease, error) {
				lease, err := s.Beat(ctx, *id)
				return &lease, err
			}),
			unary(methodAway, func(ctx context.Context, s Servers, id *Identity) (*struct{}, error) {
				return &struct{}{}, s.Away(ctx, *id)
			}),
			unary(methodUpdateAllocs, func(ctx context.Context, s Servers, m *updateMessage) (*UpdateAnswer, error) {
				answer, err := s.UpdateAllocs(ctx, m.ID, m.Reports)
				return &answer, err
			}),
			unary(methodFetchAllocs, func(ctx context.Context, s Servers, m *fetchMessage) (*allocsMessage, error) {
				allocs, err := s.FetchAllocs(ctx, m.ID, m.AllocIDs)
				return packAllocs(allocs), err
			}),
			variablesMethod(),
			servicesMethod(),
			schemasMethod(),
			pluginsMethod(),
			identitiesMethod(),
			checkTokenMethod(),
			claimVolumeMethod(),
		},
		Streams: []grpc.StreamDesc{
			bothWays(methodAttach, (*Server).attach),
			bothWays(methodAnswer, (*Server).answer),
			pluginFileStream(),
			allocDataStream(),
			httpStream(),
		},
	}
}
