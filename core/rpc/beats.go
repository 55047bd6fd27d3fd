// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// While a node is attached, its heartbeats go over the stream of its session. A separate
// call needs headers, a goroutine and several frames, which was most of the cost of
// thousands of idle nodes for a server. Servers of earlier releases do not announce that
// they read the stream, and nodes of earlier releases do not write to it: they use the
// call.

// beatMessage is a heartbeat on the stream of a session. Its identity is the session's.
type beatMessage struct {
	Number uint64 // repeated in the answer
	Seen   model.ClusterPoint
}

// beatAnswer is the answer to a beatMessage. If it has no Lease, the server has refused the
// heartbeat: the node repeats it as a call, whose error has the reason.
type beatAnswer struct {
	Number uint64
	Lease  *Lease
}

// answerBeats answers the heartbeats on a session's stream until it ends.
func (s *Server) answerBeats(stream grpc.ServerStream, id Identity, node *remoteNode) {
	var m beatMessage
	for {
		if stream.RecvMsg(&m) != nil {
			return // the session has ended, and its handler knows why
		}
		id.Seen = m.Seen
		answer := &beatAnswer{Number: m.Number}
		_ = s.survive(methodBeat, func() error { // the node learns of an error from the call
			lease, err := s.servers.Beat(stream.Context(), id)
			if err == nil {
				answer.Lease = &lease
			}
			return err
		})
		if node.send(&toNode{Beat: answer}) != nil {
			return
		}
	}
}

// beats sends heartbeats on the stream of a session. It is nil-safe: without a stream it
// sends nothing.
type beats struct {
	id     Identity
	stream interface{ SendMsg(any) error }
	ended  chan struct{} // closed at the end of the session

	sending sync.Mutex // serializes SendMsg
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *beatAnswer // of size 1
}

// beat returns the answer to a heartbeat. sent is false if it must be sent as a call.
func (b *beats) beat(ctx context.Context, id Identity) (lease Lease, sent bool, err error) {
	if b == nil || id.NodeID != b.id.NodeID || id.SecretID != b.id.SecretID || id.Instance != b.id.Instance || id.Session != b.id.Session {
		return Lease{}, false, nil
	}
	number, answer := b.expect()
	defer b.forget(number)
	b.sending.Lock()
	err = b.stream.SendMsg(&beatMessage{Number: number, Seen: id.Seen})
	b.sending.Unlock()
	if err != nil {
		return Lease{}, false, nil
	}
	select {
	case a := <-answer:
		if a.Lease == nil {
			return Lease{}, false, nil
		}
		return *a.Lease, true, nil
	case <-b.ended:
		return Lease{}, false, nil
	case <-ctx.Done():
		return Lease{}, true, fmt.Errorf("the server did not answer a heartbeat: %w", errdefs.FromGRPC(status.FromContextError(ctx.Err()).Err()))
	}
}

// expect returns the number of the next heartbeat and where its answer arrives.
func (b *beats) expect() (uint64, <-chan *beatAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	answer := make(chan *beatAnswer, 1)
	b.waiting[b.last] = answer
	return b.last, answer
}

func (b *beats) forget(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, number)
}

// answered passes an answer to the waiting caller, if it still waits.
func (b *beats) answered(a *beatAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer := b.waiting[a.Number]; answer != nil {
		delete(b.waiting, a.Number)
		answer <- a
	}
}
