// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Doorkeeper is a Servers that can check an identity cheaply. If Servers implements it, the
// server reads no body of a call before it has checked the caller.
type Doorkeeper interface {
	// Identify returns an error, like the calls of Servers, if id is not the identity
	// of a registered node.
	Identify(id Identity) error
}

// The caller's identity is sent in the metadata of each call.
const (
	headNode   = "drover-node"
	headSecret = "drover-secret-bin"
)

const (
	// maxStrangers is the number of nodes that may register for the first time at the
	// same moment, and strangerTimeout is the time limit for each.
	maxStrangers    = 32
	strangerTimeout = 30 * time.Second
	// strangersEvery is the time between two nodes that were sent away, and longestStranger
	// the longest time for which one is. Nodes that try again as they like are most of the
	// work of a server to which thousands come.
	strangersEvery  = time.Millisecond
	longestStranger = 30 * time.Second
)

// withIdentity adds the caller's identity to the calls of ctx.
func withIdentity(ctx context.Context, id Identity) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headNode, id.NodeID, headSecret, id.SecretID)
}

// identityIn returns the identity in the metadata of a call.
func identityIn(head metadata.MD) Identity {
	first := func(key string) string {
		if v := head.Get(key); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	return Identity{NodeID: first(headNode), SecretID: first(headSecret)}
}

// strangerKey marks the calls of nodes that are not registered yet.
type strangerKey struct{}

// cutKey is where the context of a session has what ends the session: a server that only
// reads from a stream cannot end it otherwise.
type cutKey struct{}

// cutOf returns what ends the stream of a context with a cause, nil if it has none.
func cutOf(ctx context.Context) context.CancelCauseFunc {
	cut, _ := ctx.Value(cutKey{}).(context.CancelCauseFunc)
	return cut
}

func isStranger(ctx context.Context) bool { return ctx.Value(strangerKey{}) != nil }

// door admits calls by their metadata.
type door struct {
	keeper    Doorkeeper // nil admits all calls
	strangers atomic.Int32

	mu    sync.Mutex
	queue time.Time // when the last of the strangers that were sent away may try again
}

// later returns how long a stranger is to wait that is sent away. Each gets a later time
// than the one before it.
func (d *door) later(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.Before(now) {
		d.queue = now
	}
	d.queue = d.queue.Add(strangersEvery)
	if wait := d.queue.Sub(now); wait <= longestStranger {
		return wait
	}
	d.queue = now.Add(longestStranger)
	return longestStranger/2 + rand.N(longestStranger/2) // not all at its end
}

// enter is called before anything but the metadata of a call is read. It must not
// block.
func (d *door) enter(ctx context.Context, call *tap.Info) (context.Context, error) {
	if d.keeper == nil || call.FullMethodName == path(methodHTTP) || strings.HasPrefix(call.FullMethodName, peerPath("")) || !ours(call.FullMethodName) { // they check their callers themselves, or have no body
		return ctx, nil
	}
	err := d.keeper.Identify(identityIn(call.Header))
	switch {
	case err == nil && call.FullMethodName == path(methodAttach):
		ctx, cut := context.WithCancelCause(ctx) // its parent ends with the stream
		return context.WithValue(ctx, cutKey{}, cut), nil
	case err == nil:
		return ctx, nil
	case call.FullMethodName != path(methodRegister):
		return ctx, errdefs.ToGRPC(err)
	}
	if d.strangers.Add(1) > maxStrangers {
		d.strangers.Add(-1)
		wait := d.later(time.Now())
		return ctx, errdefs.ToGRPC(errdefs.WithRetryAfter(errdefs.ResourceExhaustedf("%d nodes register for the first time at this moment; try again in %s", maxStrangers, wait.Round(time.Millisecond)), wait))
	}
	context.AfterFunc(ctx, func() { d.strangers.Add(-1) })
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, strangerKey{}, true), strangerTimeout)
	context.AfterFunc(ctx, cancel) // releases the timer at the end of the call
	return ctx, nil
}
