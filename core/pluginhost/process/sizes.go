// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"path"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/sdk/plugin"
)

// answeredKey is the key of an *atomic.Bool in the context of a call. It is set when the plugin's
// own status arrives.
type answeredKey struct{}

// knownSizes explains the error of a call whose request or answer is too large. gRPC reports it
// with the code of any exhausted resource. It is told from an error of the plugin by what is
// missing: the plugin has sent no status.
func knownSizes() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStatsHandler(statusWatch{}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			answered := new(atomic.Bool)
			err := next(context.WithValue(ctx, answeredKey{}, answered), method, req, reply, conn, opts...)
			if status.Code(err) != codes.ResourceExhausted || answered.Load() {
				return err
			}
			return status.Errorf(codes.ResourceExhausted, "what the agent and the plugin sent each other for %s is larger than %d MiB, the most that is allowed, so the plugin must send less, such as a smaller handle of a task, or the job must: %s",
				path.Base(method), plugin.MaxMessage>>20, status.Convert(err).Message())
		}),
	}
}

// statusWatch notes in the context of a call that the plugin's status has arrived.
type statusWatch struct{}

func (statusWatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (statusWatch) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if answered, ok := ctx.Value(answeredKey{}).(*atomic.Bool); ok {
		if _, ok := s.(*stats.InTrailer); ok {
			answered.Store(true)
		}
	}
}

func (statusWatch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (statusWatch) HandleConn(context.Context, stats.ConnStats) {}
