// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/errdefs"
)

// session is the stream of a node's session. SendMsg waits while the node does not read.
type session struct {
	grpc.ServerStream
	ctx   context.Context
	reads chan *toNode
}

func (s session) Context() context.Context { return s.ctx }

func (s session) SendMsg(m any) error {
	select {
	case s.reads <- m.(*toNode):
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// hanging returns a node and its session.
func hanging(t *testing.T) (*remoteNode, session) {
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	s := session{ctx: ctx, reads: make(chan *toNode)}
	return &remoteNode{server: &Server{calls: map[string]*remoteCall{}}, session: s}, s
}

func TestACallToANodeThatDoesNotReadEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := hanging(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Call(ctx, Call{Method: MethodStreamLogs}, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call ended with %v", err)
		}
		if len(n.server.calls) != 0 {
			t.Error("the server still waits for the answer")
		}
	})
}

func TestACallThatTheNodeDoesNotTakeEndsAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := hanging(t)
		go func() { <-s.reads }() // and does nothing
		begun := time.Now()
		if err := n.Call(t.Context(), Call{Method: MethodStreamLogs}, nil, nil); !errdefs.IsDeadlineExceeded(err) {
			t.Errorf("the call ended with %v", err)
		}
		if took := time.Since(begun); took != takenWithin {
			t.Errorf("the call took %s", took)
		}
	})
}

func TestACallThatTheNodeHasTakenMayLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, s := hanging(t)
		go func() {
			c := n.server.take((<-s.reads).CallID)
			time.Sleep(time.Hour)
			c.finish(nil)
		}()
		if err := n.Call(t.Context(), Call{Method: MethodStreamLogs}, nil, nil); err != nil {
			t.Error(err)
		}
	})
}
